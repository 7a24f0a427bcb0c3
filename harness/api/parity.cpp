#include "harness/api/parity.hpp"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <stdexcept>

#include "harness/failure.hpp"
#include "harness/foreign.hpp"
#include "harness/launch.hpp"
#include "harness/suite.hpp"
#include "harness/walk.hpp"

namespace parity::api {
namespace {

// Ops and cases register themselves where they are loaded: this library holds neither.
void load_ops() {
  static const bool loaded = [] {
    if (!registry().ops.empty()) return true;
    Dl_info here{};
    ::dladdr(reinterpret_cast<const void*>(&load_ops), &here);
    const std::filesystem::path beside =
        std::filesystem::path(here.dli_fname).parent_path() / "libparity_ops.so";
    if (!::dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL))
      throw std::runtime_error(fmt::format("parity: {}", ::dlerror()));
    return true;
  }();
  static_cast<void>(loaded);
}

Tensor public_of(const TensorSpec& spec, std::vector<std::byte> bytes) {
  Tensor tensor{
      .name = spec.name, .dtype = std::string(name(spec.dtype)), .bytes = std::move(bytes)};
  for (const Dim& dim : spec.dims) tensor.shape.push_back(dim.extent);
  return tensor;
}

std::string text_of(const CaseRecord& record) {
  std::string text = fmt::format("{} {}: {}", record.status, record.id, record.reason);
  for (const TensorRecord& tensor : record.tensors)
    for (const ViewResult& view : tensor.views)
      if (!view.ok)
        text += fmt::format("\n  {}: {} is {:.3g}, allowed {:.3g} ({})", tensor.name, view.view,
                            view.value, view.limit, view.detail);
  return text;
}

double used(const std::vector<TensorRecord>& tensors) {
  double most = 0;
  for (const TensorRecord& tensor : tensors)
    if (!(tensor.bound_used <= most)) most = tensor.bound_used;
  return most;
}

Observed observe(const RunRequest& request, const std::function<void(Call&)>& kernel) {
  Call call;
  for (const Size& size : request.problem.sizes.list()) call.sizes[size.name] = size.extent;
  call.options = request.problem.options.map();
  for (const parity::Tensor& tensor : request.inputs.list())
    call.inputs.push_back(public_of(tensor.spec, tensor.bytes));
  std::vector<TensorSpec> specs;
  for (const TensorSpec& spec : registry().op_or_throw(request.problem.op).outputs(request.problem))
    if (answers(spec.role, request.direction)) specs.push_back(spec);
  for (const TensorSpec& spec : specs)
    call.outputs.push_back(public_of(
        spec, std::vector<std::byte>(bytes_for(spec.dtype, elements(spec.dims)), std::byte{0xff})));
  try {
    kernel(call);
  } catch (const std::exception& error) {
    throw LaunchError(fmt::format("the kernel threw: {}", error.what()));
  }
  Observed observed;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Tensor& out = call.outputs[i];
    if (out.bytes.size() != bytes_for(specs[i].dtype, elements(specs[i].dims)))
      throw LaunchError(fmt::format("the kernel changed the size of '{}'", out.name));
    observed.tensors.add({specs[i], out.bytes});
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (call.inputs[i].bytes != request.inputs.list()[i].bytes) {
      observed.inputs_unchanged = false;
      observed.complaints.push_back(fmt::format("it changed input '{}'", call.inputs[i].name));
    }
  return observed;
}

template <class List>
auto& named(List& list, const std::string& wanted) {
  const auto found = std::ranges::find(list, wanted, &Tensor::name);
  if (found != list.end()) return *found;
  std::vector<std::string> known;
  for (const Tensor& tensor : list) known.push_back(tensor.name);
  throw std::out_of_range(
      fmt::format("no tensor '{}'; there are {}", wanted, fmt::join(known, ", ")));
}

}  // namespace

const Tensor& Call::in(const std::string& wanted) const { return named(inputs, wanted); }
Tensor& Call::out(const std::string& wanted) { return named(outputs, wanted); }
bool Call::has_out(const std::string& wanted) const {
  return std::ranges::find(outputs, wanted, &Tensor::name) != outputs.end();
}

Verdict judge(const Tensor& candidate, std::span<const double> truth, const Limits& limits) {
  TensorSpec spec{
      .name = candidate.name, .role = Role::Output, .dtype = parse_dtype(candidate.dtype)};
  for (std::size_t i = 0; i < candidate.shape.size(); ++i)
    spec.dims.push_back({fmt::format("I{}", i), candidate.shape[i]});
  const auto n = static_cast<std::size_t>(elements(spec.dims));
  if (candidate.bytes.size() != bytes_for(spec.dtype, elements(spec.dims)))
    throw std::invalid_argument(fmt::format("'{}' has {} bytes, its shape needs {}", candidate.name,
                                            candidate.bytes.size(),
                                            bytes_for(spec.dtype, elements(spec.dims))));
  if (truth.size() != n || (!limits.magnitude.empty() && limits.magnitude.size() != n))
    throw std::invalid_argument(
        fmt::format("'{}' has {} elements, its truth {}", candidate.name, n, truth.size()));
  if (n == 0) return {.status = "unproven", .text = "a tensor without elements shows nothing"};
  ExpectedTensor expected{
      .spec = spec, .value = {truth.begin(), truth.end()}, .scale = limits.magnitude};
  if (expected.scale.empty()) {
    expected.scale = expected.value;
    for (double& v : expected.scale) v = std::abs(v);
  }
  const Bound bound{.kind = BoundKind::Proved,
                    .growth = {.kind = Growth::Kind::WorstCase, .n = limits.terms},
                    .accumulate = parse_dtype(limits.accumulate),
                    .why = "a sum of so many terms, and one final rounding"};
  CaseRecord record{.id = candidate.name};
  record.tensors.push_back(compare({.expected = expected,
                                    .observed = {spec, candidate.bytes},
                                    .bound = bound,
                                    .details = false}));
  judge_tensor(record.tensors.back());
  record.accounting.produced = record.accounting.compared =
      static_cast<std::int64_t>(candidate.bytes.size());
  parity::judge(record);
  return {record.status, record.view, text_of(record), used(record.tensors)};
}

Verdict run(const std::string& id, const std::function<void(Call&)>& kernel,
            const Options& options) {
  load_ops();
  const Case problem = resolve(registry(), parse_id(id));
  Subject subject = subject_of(problem, "");  // no kernel has no name
  if (!options.gradients) subject.direction = Direction::Forward;
  subject.candidates = {{.name = "api",
                         .contract = foreign_contract(problem, options.contract),
                         .backward = options.gradients,
                         .run = [&kernel](const RunRequest& r) { return observe(r, kernel); }}};
  SuiteOptions suite{
      .jobs = 1, .timeout_s = options.seconds, .isolate = options.isolate, .details = false};
  Verdict verdict{.status = "error", .text = "nothing ran"};
  run_suite({subject}, suite, [&](const CaseRecord& record) {
    verdict = {record.status, record.view, text_of(record), used(record.tensors)};
  });
  return verdict;
}

std::vector<std::string> cases(const std::string& glob, const std::string& lane) {
  load_ops();
  std::vector<std::string> ids;
  for (const Case& problem : expand(registry(), parse_lane(lane)))
    if ((problem.check == Check::Parity || problem.check == Check::Exact) &&
        glob_match(glob, problem.id()))
      ids.push_back(problem.id());
  return ids;
}

}  // namespace parity::api
