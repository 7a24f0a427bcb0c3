// Stored products in the op's terms. Operands are called a and b (or x and w), the result d or out.
// Records of one instruction name it; of a recorded GEMM only the result is known, and the schedule
// that gives it is searched for: option `found` of the imported case.
#include "references/gemm/import.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "harness/failure.hpp"
#include "references/blocks/unit_op.hpp"
#include "references/gemm/evaluate.hpp"
#include "references/tensorcore/search.hpp"

namespace parity::gemm {
namespace {

constexpr const char* kRecordedArch = "sm_90";

Tensor read(const StoredCase& stored, const std::string& path, const char* name) {
  Tensor t = stored.read(path);
  t.spec.name = name;
  t.spec.role = Role::Input;
  return t;
}

std::int64_t extent(const Tensor& t, std::size_t from_end) {
  return t.spec.dims[t.spec.dims.size() - from_end].extent;
}

// [G, K, N] -> [G, N, K].
Tensor transposed(Tensor t) {
  const std::int64_t G = extent(t, 3), K = extent(t, 2), N = extent(t, 1);
  const Tensor from = t;
  for (std::int64_t g = 0; g < G; ++g)
    for (std::int64_t n = 0; n < N; ++n)
      for (std::int64_t k = 0; k < K; ++k)
        store_code(t.spec.dtype, t.bytes.data(), (g * N + n) * K + k,
                   load_code(t.spec.dtype, from.bytes.data(), (g * K + k) * N + n));
  t.spec.dims[1].extent = N;
  t.spec.dims[2].extent = K;
  return t;
}

[[noreturn]] void refuse(const StoredCase& stored, std::string_view why) {
  throw GoldenError(fmt::format("{}: {}: {}", stored.file, stored.name, why));
}

void set_sizes(const StoredCase& stored, const Tensor& x, const Tensor& w, Case& c) {
  const std::size_t axes = x.spec.dims.size();
  if (axes < 2 || axes > 3 || w.spec.dims.size() < 2 || w.spec.dims.size() > 3)
    refuse(stored, "operands are no matrices");
  if (extent(x, 1) != extent(w, 1)) refuse(stored, "operands differ in K");
  if (axes == 3) {
    if (w.spec.dims.size() != 3 || extent(x, 3) != extent(w, 3))
      refuse(stored, "operands differ in their number of tiles");
    c.sizes.set({"T", extent(x, 3), {}});
  } else if (w.spec.dims.size() == 3) {
    c.sizes.set({"G", extent(w, 3), {}});
  }
  c.sizes.set({"M", extent(x, 2), {}});
  c.sizes.set({"N", extent(w, 2), {}});
  c.sizes.set({"K", extent(x, 1), {}});
}

// An instruction's record: the schedule of one instruction, started from c.
void set_instruction(const std::string& text, Case& c) {
  const tensorcore::Instruction i = tensorcore::parse_instruction(kRecordedArch, text);
  c.options.set("c", "1");
  c.options.set("bits", tensorcore::name_of({.unit = i.unit, .accumulate = i.d}));
}

// The schedule that gives the recorded result, by trying.
std::string found_schedule(const StoredCase& stored, const ImportedCase& imported,
                           const std::string& result) {
  const Problem p = problem_of(imported.problem);
  const Tensor y = stored.read(result);
  if (y.elements() != p.T * p.M * p.N) refuse(stored, "the result has another size");
  const std::vector<Part> parts = parts_of(p, imported.inputs);
  const Part part = *std::ranges::max_element(parts, {}, &Part::rows);
  const Epilogue epilogue(p, imported.inputs, "");
  const Dtype dtype = y.spec.dtype;
  const tensorcore::Observation observation{
      .product = product_of(p, imported.inputs, part, {}),
      .store = [&](float sum, std::int64_t m,
                   std::int64_t n) { return epilogue(sum, part.first_x + m, n); },
      .stored =
          [&](std::int64_t m, std::int64_t n) {
            return load_code(dtype, y.bytes.data(), (part.first_x + m) * p.N + n);
          }};
  const tensorcore::Found found = tensorcore::search(observation, kRecordedArch, kLaunchThreads);
  return found.tried == 0 ? "" : tensorcore::name_of(found.nearest.schedule);
}

}  // namespace

ImportedCase import_case(const StoredCase& stored) {
  using unit::has;
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "gemm";
  const bool grouped = has(stored, "inputs/offs");
  Tensor x = read(stored, has(stored, "inputs/a") ? "inputs/a" : "inputs/x", "x");
  Tensor w = read(stored, has(stored, "inputs/b") ? "inputs/b" : "inputs/w", "w");
  if (grouped) {
    if (w.spec.dims.size() != 3) refuse(stored, "grouped weights are [G, K, N]");
    w = transposed(std::move(w));
  }
  set_sizes(stored, x, w, c);
  c.dtype = x.spec.dtype;
  if (w.spec.dtype != c.dtype) c.options.set("w", name(w.spec.dtype));
  const std::string result = has(stored, "outputs/d") ? "outputs/d" : "outputs/out";
  if (!has(stored, result)) refuse(stored, "has neither outputs/d nor outputs/out");
  const Dtype y = stored.read(result).spec.dtype;
  if (y != Dtype::F32) c.options.set("out", name(y));
  if (has(stored, "inputs/scale_a"))
    c.options.set("scale", stored.read("inputs/scale_a").elements() == 1 ? "tensor" : "row");
  if (has(stored, "inputs/scale_result")) c.options.set("result_scale", "1");
  const std::string instruction = unit::attribute(stored, "instruction");
  if (!instruction.empty()) try {
      set_instruction(instruction, c);
    } catch (const std::invalid_argument& e) {
      imported.unsupported = e.what();
      return imported;
    }
  if (imported.unsupported = refuses(c); !imported.unsupported.empty()) return imported;

  for (const TensorSpec& spec : inputs(c)) {
    const std::string path = spec.name == "scale_x"   ? "inputs/scale_a"
                             : spec.name == "scale_w" ? "inputs/scale_b"
                                                      : "inputs/" + spec.name;
    Tensor t = spec.name == "x" ? x : spec.name == "w" ? w : stored.read(path);
    if (t.elements() != elements(spec.dims) || t.spec.dtype != spec.dtype)
      refuse(stored, fmt::format("{} is not what the op takes as '{}'", path, spec.name));
    t.spec = spec;
    imported.inputs.add(std::move(t));
  }
  imported.results["y"] = result;
  if (instruction.empty()) c.options.set("found", found_schedule(stored, imported, result));
  return imported;
}

Contract contract(const Case& c, const std::map<std::string, std::string>&) {
  const std::string found = c.options.get("found", c.options.get("bits", ""));
  return contract_of(found.empty() ? "f32" : found);
}

Contract contract_of(const std::string& schedule) {
  const auto parsed = tensorcore::parse_schedule(schedule);
  if (!parsed) return {.name = schedule, .accumulate = Dtype::F32};
  Contract contract{.name = schedule, .accumulate = Dtype::F32, .fidelity = Fidelity::Twin};
  if (!tensorcore::hw_verified(*parsed)) contract.name += kModelOnly;
  contract.invariant = {"threads"};
  return contract;
}

}  // namespace parity::gemm
