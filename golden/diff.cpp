// Two golden files in noise units. One unit is the bound that the older file carries (u |x| + 512 u
// scale, subjects.cpp): a move below 1 is what another compiler or another order of summation does,
// far above 1 the meaning changed.
#include <algorithm>
#include <set>

#include "golden/golden.hpp"
#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "harness/walk.hpp"

namespace parity::golden {
namespace {

bool has(const StoredCase& stored, const std::string& path) {
  return std::ranges::find(stored.paths, path) != stored.paths.end();
}

ExpectedTensor expected_of(const StoredCase& older, const std::string& path, Tensor tensor) {
  ExpectedTensor expected{.spec = tensor.spec};
  expected.value = tensor.widened();
  if (has(older, "scale/" + path)) {
    expected.scale = older.read("scale/" + path).widened();
  } else {  // a foreign file: the magnitude of the tensor itself
    double largest = 0;
    for (const double x : expected.value) largest = std::max(largest, std::abs(x));
    expected.scale.assign(expected.value.size(), largest);
  }
  if (!format(tensor.spec.dtype).is_float || format(tensor.spec.dtype).bits <= 8) {
    expected.bits = std::move(tensor.bytes);
    expected.ignore.assign(expected.value.size(), 0);
  }
  return expected;
}

std::string verdict_on(double units, bool equal) {
  if (equal) return "equal";
  const std::string moved = "moved by " + shortest(units) + " noise units: ";
  return moved + (units <= 1 ? "toolchain" : "semantic");
}

TensorRecord diff_tensor(const StoredCase& older, const StoredCase& newer,
                         const std::string& path) {
  Tensor before = older.read(path);
  const Tensor after = newer.read(path);
  TensorRecord record{.name = path};
  if (before.spec.dtype != after.spec.dtype || before.spec.dims != after.spec.dims) {
    record.status = "fail";
    record.pattern = "dtype or shape changed";
    return record;
  }
  const bool equal = before.bytes == after.bytes;
  const ExpectedTensor expected = expected_of(older, path, std::move(before));
  record = compare({.expected = expected,
                    .observed = after,
                    .bound = {.kind = BoundKind::Estimated,
                              .c_acc = 512,
                              .growth = {.kind = Growth::Kind::WorstCase, .n = 1},
                              .accumulate = Dtype::F64,
                              .why = "the older file's scale"},
                    .exact = !expected.bits.empty(),
                    .details = false});
  record.pattern = verdict_on(record.bound_used, equal);
  record.status = equal || record.bound_used <= 1 ? "pass" : "fail";
  return record;
}

CaseRecord diff_case(const StoredCase& older, const StoredCase& newer) {
  CaseRecord record{
      .id = older.name, .op = older.attributes.at("op"), .check = "golden", .status = "pass"};
  std::set<std::string> paths(older.paths.begin(), older.paths.end());
  paths.insert(newer.paths.begin(), newer.paths.end());
  for (const std::string& path : paths) {
    if (has(older, path) && has(newer, path)) {
      record.tensors.push_back(diff_tensor(older, newer, path));
    } else {
      TensorRecord one_sided{
          .name = path,
          .pattern = has(older, path) ? "only in the older file" : "only in the newer file"};
      one_sided.status = "fail";
      record.tensors.push_back(std::move(one_sided));
    }
    const TensorRecord& last = record.tensors.back();
    if (last.status == "fail") {
      record.status = "fail";
      if (record.reason.empty()) record.reason = path + ": " + last.pattern;
    }
  }
  return record;
}

}  // namespace

std::vector<CaseRecord> diff(const fs::path& older_file, const fs::path& newer_file) {
  const std::vector<StoredCase> older = stored_cases(older_file), newer = stored_cases(newer_file);
  std::vector<CaseRecord> records;
  for (const StoredCase& before : older) {
    const auto after = std::ranges::find(newer, before.name, &StoredCase::name);
    if (after != newer.end())
      records.push_back(diff_case(before, *after));
    else
      records.push_back({.id = before.name,
                         .check = "golden",
                         .status = "fail",
                         .reason = "only in the older file"});
  }
  for (const StoredCase& after : newer)
    if (std::ranges::find(older, after.name, &StoredCase::name) == older.end())
      records.push_back({.id = after.name,
                         .check = "golden",
                         .status = "fail",
                         .reason = "only in the newer file"});
  return records;
}

}  // namespace parity::golden
