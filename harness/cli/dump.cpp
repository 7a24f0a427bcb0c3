#include "harness/cli/dump.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "golden/h5.hpp"
#include "harness/child.hpp"
#include "harness/failure.hpp"
#include "harness/walk.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 255;  // of a file, NAME_MAX

std::string place(const TensorSpec& spec) {
  const bool has_folder = spec.name.starts_with("cotangents/") || spec.name.starts_with("grads/") ||
                          spec.name.starts_with("params/");
  if (has_folder) return spec.name;
  return (spec.role == Role::Input ? "inputs/" : "outputs/") + spec.name;
}

Tensor tensor_of(TensorSpec spec, const std::vector<double>& value,
                 const std::vector<std::byte>& bits) {
  if (!bits.empty()) return {std::move(spec), bits};
  spec.dtype = Dtype::F64;
  return make_tensor(std::move(spec), value);
}

std::int64_t bytes_of(const Tensors& tensors) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : tensors.list())
    bytes += static_cast<std::int64_t>(tensor.bytes.size());
  return bytes;
}

// What is written, after the limit has been checked: throws with the reason.
void write(const Subject& subject, const Candidate& candidate, const CaseRecord& record,
           const DumpLimits& limits, const fs::path& file) {
  const Tensors inputs = subject.inputs();
  const OpDef& op = registry().op_or_throw(subject.problem.op);
  const bool gradients = record.direction != "forward";
  const Expected truth =
      subject.truth ? subject.truth(inputs) : op.reference(subject.problem, inputs, gradients);
  std::int64_t bytes = bytes_of(inputs);
  for (const ExpectedTensor& tensor : truth.tensors)
    bytes += 3 * 8 * elements(tensor.spec.dims);  // truth, base, candidate
  if (bytes > limits.bytes)
    throw UsageError(fmt::format("{} bytes, and --dump-limit leaves {}", bytes,
                                 std::max<std::int64_t>(0, limits.bytes)));
  const Base base =
      op.base ? run_base(op, subject.problem, candidate.contract, inputs, gradients) : Base{};
  Observed observed;
  if (candidate.run)
    observed = candidate.run({.problem = subject.problem,
                              .inputs = inputs,
                              .direction = parse_direction(record.direction)});

  h5::Writer out(file);
  const std::string group = "/case/";
  out.attribute("/case", "op", subject.problem.op);
  out.attribute("/case", "id", record.id);
  out.attribute("/case", "repro", record.repro);
  out.attribute("/case", "verdict",
                record.status + (record.view.empty() ? "" : ": " + record.view));
  if (!candidate.run)
    out.attribute("/case", "note", "no candidate: the library of its kernel is not loaded here");
  for (const auto& [name, value] : subject.problem.options.map())
    out.attribute("/case", name, value);
  for (const Tensor& input : inputs.list())
    out.dataset(group + place(input.spec), input, /*contiguous=*/false);
  for (const ExpectedTensor& tensor : truth.tensors) {
    out.dataset(group + place(tensor.spec), tensor_of(tensor.spec, tensor.value, tensor.bits),
                false);
    if (const Values* values = base.runs.empty() ? nullptr : base.find(0, tensor.spec.name))
      out.dataset(group + "base/" + place(tensor.spec),
                  tensor_of(tensor.spec, values->value, values->bits), false);
  }
  for (const Tensor& tensor : observed.tensors.list())
    out.dataset(group + "candidates/" + candidate.name + "/" + place(tensor.spec), tensor, false);
  out.close();
}

}  // namespace

std::string dump_name(std::string_view id) {
  std::string name;
  for (const char c : id) {
    if (c == '/')
      name += "__";
    else
      name += static_cast<unsigned char>(c) < 0x20 ? '_' : c;
  }
  if (name.size() + 3 > kLongestName) name.resize(kLongestName - 3);
  return name + ".h5";
}

std::string dump_case(const Subject& subject, const Candidate& candidate, const CaseRecord& record,
                      const DumpLimits& limits, const fs::path& dir) {
  fs::create_directories(dir);
  const fs::path file = dir / dump_name(record.id);
  const fs::path temporary = file.string().substr(0, file.string().size() - 3) + ".tmp";
  const ChildAnswer written = in_child(  // a kernel that failed may crash the next time
      [&] {
        write(subject, candidate, record, limits, temporary);
        return std::string();
      },
      {.seconds = std::max(1.0, limits.seconds)});
  const std::string why = written.trouble.kind == "thrown" || written.ok()
                              ? written.trouble.reason
                              : written.trouble.reason + " when it ran again";
  if (why.empty())
    fs::rename(temporary, file);
  else
    fs::remove(temporary);
  return why;
}

}  // namespace parity::cli
