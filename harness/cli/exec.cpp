// parity run --exec 'COMMAND {in} {out}': the candidate is a command. Its inputs are a file of
// tensors, its results another; it is judged as any kernel.
#include <algorithm>
#include <fmt/format.h>

#include "golden/io/tensor_file.hpp"
#include "harness/cli/candidates.hpp"
#include "harness/cli/command.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/failure.hpp"
#include "harness/foreign.hpp"
#include "harness/launch.hpp"
#include "harness/text.hpp"
#include "reports/json_writer.hpp"

namespace parity::cli {
namespace {

constexpr const char* kName = "exec";  // of the candidate
constexpr double kGrace = 10;          // seconds for the files, beyond the command's own
constexpr const char* kTimedOut = "the command timed out";

// "{in}", or "{in.npz}" for another format: what stands in the command, and the suffix.
struct Place {
  std::string text = {}, suffix = {};
};

Place place_of(const std::string& command, const std::string& word) {
  const std::size_t at = command.find("{" + word);
  const std::size_t end = at == std::string::npos ? at : command.find('}', at);
  if (end == std::string::npos)
    throw UsageError(fmt::format("--exec: the command names no {{{}}}", word));
  Place place{command.substr(at, end + 1 - at),
              command.substr(at + word.size() + 1, end - at - word.size() - 1)};
  if (place.suffix.empty()) place.suffix = ".safetensors";
  const std::vector<std::string> known = {".safetensors", ".npz", ".h5"};
  if (std::ranges::find(known, place.suffix) == known.end())
    throw UsageError(fmt::format("--exec {}: write {{{}}}, {{{}.npz}} or {{{}.h5}}", place.text,
                                 word, word, word));
  return place;
}

std::string filled(std::string command, const Place& place, const std::string& path) {
  for (std::size_t at = 0; (at = command.find(place.text, at)) != std::string::npos;
       at += path.size())
    command.replace(at, place.text.size(), path);
  return command;
}

struct Command {
  std::string line = {};
  Place in = {}, out = {};
  double seconds = 60;
};

std::vector<std::int64_t> shape_of(const TensorSpec& spec) {
  std::vector<std::int64_t> shape;
  for (const Dim& dim : spec.dims) shape.push_back(dim.extent);
  return shape;
}

std::vector<TensorSpec> answers_of(const RunRequest& request) {
  std::vector<TensorSpec> specs =
      registry().op_or_throw(request.problem.op).outputs(request.problem);
  std::erase_if(specs,
                [&](const TensorSpec& spec) { return !answers(spec.role, request.direction); });
  return specs;
}

// What a command may want to know besides the tensors; sizes, options and outputs as JSON.
io::Metadata metadata_of(const RunRequest& request) {
  const Case& problem = request.problem;
  reports::JsonWriter sizes, outputs;
  sizes.begin_object();
  for (const Size& size : problem.sizes.list()) sizes.field(size.name, size.extent);
  outputs.begin_array();
  for (const TensorSpec& spec : answers_of(request))
    outputs.begin_object()
        .field("name", spec.name)
        .field("role", name(spec.role))
        .field("dtype", name(spec.dtype))
        .field("shape", shape_of(spec))
        .end_object();
  reports::JsonWriter options;
  options.value(problem.options.map());
  return {{"id", problem.id()},
          {"op", problem.op},
          {"dtype", std::string(name(problem.dtype))},
          {"direction", std::string(name(request.direction))},
          {"sizes", sizes.end_object().text()},
          {"options", options.text()},
          {"outputs", outputs.end_array().text()}};
}

// A result in the format of the case: floats are rounded once, bytes may be codes, other integers
// must fit. "" or what is wrong with it.
std::string adapt(Tensor& tensor, const TensorSpec& spec) {
  const Dtype from = tensor.spec.dtype, to = spec.dtype;
  const bool floats = format(from).is_float && format(to).is_float;
  if (from != to && format(to).bits <= 8 && (from == Dtype::U8 || from == Dtype::I8)) {
    if (tensor.bytes.size() != bytes_for(to, elements(spec.dims)))
      return fmt::format("'{}' has {} bytes, the case {}", spec.name, tensor.bytes.size(),
                         bytes_for(to, elements(spec.dims)));
    tensor.spec = spec;
    return "";
  }
  if (shape_of(tensor.spec) != shape_of(spec))
    return fmt::format("'{}' has the shape [{}], the case [{}]", spec.name,
                       fmt::join(shape_of(tensor.spec), ","), fmt::join(shape_of(spec), ","));
  if (from != to) {
    if (!floats && (format(from).is_float || format(to).is_float))
      return fmt::format("'{}' is {}, the case wants {}", spec.name, name(from), name(to));
    const std::vector<double> values = tensor.widened();
    tensor = make_tensor(spec, values);
    if (!floats && tensor.widened() != values)
      return fmt::format("'{}' holds values that {} has not", spec.name, name(to));
  }
  tensor.spec = spec;
  return "";
}

Observed results(const io::TensorFile& file, const RunRequest& request) {
  Observed observed;
  const std::vector<TensorSpec> specs = answers_of(request);
  const bool any_gradient = std::ranges::any_of(specs, [&](const TensorSpec& spec) {
    return spec.role == Role::Gradient && file.find(spec.name);
  });
  for (const TensorSpec& spec : specs) {
    const std::size_t* at = file.find(spec.name);
    if (!at) {
      // Gradients may be left out, but all of them.
      if (spec.role != Role::Gradient || any_gradient || request.direction == Direction::Backward)
        observed.complaints.push_back(fmt::format("'{}' was not produced", spec.name));
      continue;
    }
    Tensor tensor = file.read(*at);
    std::string wrong = adapt(tensor, spec);
    if (wrong.empty())
      observed.tensors.add(std::move(tensor));
    else
      observed.complaints.push_back(std::move(wrong));
  }
  if (observed.tensors.empty()) {
    observed.complaints.push_back("there is no result in it");
    throw UsageError(
        fmt::format("{}: {}", file.path().string(), fmt::join(observed.complaints, "; ")));
  }
  const std::vector<TensorSpec> all =
      registry().op_or_throw(request.problem.op).outputs(request.problem);
  for (const io::TensorInfo& tensor : file.tensors())
    if (std::ranges::find(all, tensor.name, &TensorSpec::name) == all.end() &&
        !request.inputs.find(tensor.name))
      observed.complaints.push_back(
          fmt::format("'{}' is no output of {}", tensor.name, request.problem.op));
  return observed;
}

Observed observe(const Command& command, const RunRequest& request) {
  const ScratchFolder folder;
  const std::string in = folder.path() + "/in" + command.in.suffix,
                    out = folder.path() + "/out" + command.out.suffix;
  io::write(in, request.inputs, metadata_of(request));
  const std::string line =
      filled(filled(command.line, command.in, shell_word(in)), command.out, shell_word(out));
  const auto start = std::chrono::steady_clock::now();
  const CommandEnd end = run_command_line(line, command.seconds);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (const std::string trouble = end.trouble(); !trouble.empty())
    throw LaunchError(fmt::format("the command {}", trouble));
  try {
    Observed observed = results(io::open(out), request);
    observed.kernel_ms = took.count();
    return observed;
  } catch (const UsageError& error) {
    throw LaunchError(fmt::format("the command's results: {}{}{}", error.what(),
                                  end.last.empty() ? "" : "; it said: ", end.last));
  }
}

std::vector<Subject> subjects_of(const Arguments& args, Lane lane, const Command& command) {
  std::vector<Subject> subjects;
  for (const Case& problem : select_cases(args, lane)) {
    if (problem.check != Check::Parity && problem.check != Check::Exact &&
        problem.check != Check::Sharded)
      continue;
    Subject subject = subject_of(problem, "");  // no kernel has no name
    subject.candidates = {
        {.name = kName,
         .contract = foreign_contract(problem, args.contract),
         .stored = true,  // gradients may be left out
         .run = [command](const RunRequest& request) { return observe(command, request); }}};
    subjects.push_back(std::move(subject));
  }
  if (subjects.empty()) throw UsageError("--exec: no case of parity or exactness is named");
  Arguments filters = args;
  filters.names.clear();
  filters.from.clear();
  return narrow(std::move(subjects), filters);
}

Command command_of(const Arguments& args) {
  return {.line = args.exec,
          .in = place_of(args.exec, "in"),
          .out = place_of(args.exec, "out"),
          .seconds = args.timeout_s};
}

}  // namespace

std::vector<Subject> command_subjects(const Arguments& args, Lane lane) {
  if (args.bitwise || !args.kernel.empty() || !args.recordings.empty())
    throw UsageError("--exec: has no kernels, recordings or claims of bit equality to judge");
  return subjects_of(args, lane, command_of(args));
}

std::string command_flags(const Arguments& args) {
  return fmt::format("--exec {}{}", shell_word(args.exec),
                     args.contract.empty() ? "" : " --contract " + shell_word(args.contract));
}

void amend_command(CaseRecord& record, const std::string& verb, const Arguments& args) {
  record.repro = fmt::format("{} {} {}", verb, shell_word(record.id), command_flags(args));
  if (record.reason.starts_with(kTimedOut)) record.error_kind = "timeout";
  if (record.direction == "both" && !record.tensors.empty() &&
      std::ranges::none_of(record.tensors,
                           [](const auto& tensor) { return tensor.role == name(Role::Gradient); }))
    record.direction = "forward";
}

Arguments with_grace(Arguments args) {
  if (!args.exec.empty()) args.timeout_s += kGrace;
  return args;
}

}  // namespace parity::cli
