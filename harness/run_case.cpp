// The walk of one candidate: launch, compare, judge, record.
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <set>

#include "harness/cuda/device_info.hpp"
#include "harness/cuda/device_memory.hpp"
#include "harness/determinism.hpp"
#include "harness/environment.hpp"
#include "harness/failure.hpp"
#include "harness/launch.hpp"
#include "harness/source_path.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUnclaimedLaunches = 3;  // of a kernel that claims no determinism
constexpr int kDeviceLaunches = 2;     // of a GPU kernel: races show between launches

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void set_status(CaseRecord& record, Status status, std::string reason) {
  record.status = name(status);
  record.reason = std::move(reason);
}

void set_error(CaseRecord& record, std::string_view kind, std::string reason) {
  set_status(record, Status::Error, std::move(reason));
  record.error_kind = kind;
}

std::int64_t size_of(const Tensor& t) { return static_cast<std::int64_t>(t.bytes.size()); }

// What the launch saw, and how many bytes it handed over.
void account(CaseRecord& record, const Observed& observed) {
  Accounting& a = record.accounting;
  a.inputs_unchanged = observed.inputs_unchanged;
  a.saved_unchanged = observed.saved_unchanged;
  a.canaries_whole = observed.canaries_whole;
  a.unwritten = observed.unwritten;
  a.complaints = observed.complaints;
  if (!observed.device_kernels.empty()) {
    const DeviceReport report = query_device_in_use();
    if (report.devices.empty()) throw DeviceError(report.reason);
    record.device = {{"name", report.devices.front().name},
                     {"sm", report.devices.front().sm()},
                     {"driver", cuda_version_text(report.driver_version)},
                     {"kernels", fmt::format("{}", fmt::join(observed.device_kernels, ", "))}};
  }
  std::set<std::string> names;
  for (const Tensor& t : observed.tensors.list()) {
    a.produced += size_of(t);
    if (!names.insert(t.spec.name).second)
      a.complaints.push_back(fmt::format("'{}' was produced twice", t.spec.name));
  }
}

TensorRecord blank_tensor(const Tensor& t) {
  TensorRecord r{.name = t.spec.name,
                 .role = std::string(name(t.spec.role)),
                 .parameter = t.spec.parameter,
                 .dtype = std::string(name(t.spec.dtype)),
                 .elements = t.elements()};
  for (const Dim& d : t.spec.dims) {
    r.shape.push_back(d.extent);
    r.axes.push_back(d.name);
  }
  return r;
}

// Check `bitwise`: no truth is needed, the kernel is compared with itself.
void walk_bits(CaseRecord& record, const Candidate& candidate, const RunRequest& request,
               int repeat) {
  const BitCheck check = check_bits(candidate, request, repeat);
  record.time_ms.kernel = check.first.kernel_ms;
  account(record, check.first);
  bool claimed = false;
  for (const BitClaim& claim : check.claims) claimed |= claim.claimed && claim.skipped.empty();
  for (const Tensor& t : check.first.tensors.list()) {
    TensorRecord r = blank_tensor(t);
    r.views.push_back(determinism_view(check.claims, t.spec.name));
    r.differing = static_cast<std::int64_t>(r.views.back().value);
    r.status = name(r.views.back().ok ? Status::Pass : Status::Fail);
    r.view = name(r.views.back().ok ? View::None : View::Determinism);
    record.accounting.compared += size_of(t);
    record.tensors.push_back(std::move(r));
  }
  judge(record);
  if (record.status == name(Status::Pass) && !claimed)
    set_status(record, Status::Unsupported, "the contract claims no determinism and no invariance");
}

// Noise of a launch that the base cannot have: only where the contract says that launches differ.
double spread_of(const Candidate& candidate, const BitCheck& launched, const std::string& tensor) {
  const auto it = launched.spread.find(tensor);
  return candidate.contract.deterministic || it == launched.spread.end() ? 0 : it->second;
}

void compare_all(CaseRecord& record, const Subject& subject, const Candidate& candidate,
                 const Known& known, const BitCheck& launched, Direction direction,
                 const WalkOptions& walk) {
  const Observed& observed = launched.first;
  for (const ExpectedTensor& expected : known.expected.tensors) {
    if (!answers(expected.spec.role, direction)) continue;
    const Tensor* got = observed.tensors.find(expected.spec.name);
    if (!got) {
      if (!candidate.stored)
        record.accounting.complaints.push_back(
            fmt::format("'{}' was not produced", expected.spec.name));
      continue;
    }
    if (got->elements() != elements(expected.spec.dims)) {
      record.accounting.complaints.push_back(
          fmt::format("'{}' has {} elements where the truth has {}", expected.spec.name,
                      got->elements(), elements(expected.spec.dims)));
      continue;
    }
    const Bound bound = subject.bound
                            ? subject.bound(candidate.contract, got->spec)
                            : registry().bound_of(subject.problem, candidate.contract, got->spec);
    TensorRecord tensor = compare({.expected = expected,
                                   .base = subject.judge_base ? &known.base : nullptr,
                                   .observed = *got,
                                   .bound = bound,
                                   .fidelity = candidate.contract.fidelity,
                                   .spread = spread_of(candidate, launched, expected.spec.name),
                                   .exact = subject.check == Check::Exact || !expected.bits.empty(),
                                   .details = walk.details});
    judge_tensor(tensor);
    if (!launched.claims.empty())
      tensor.views.push_back(determinism_view(launched.claims, expected.spec.name));
    record.accounting.compared += size_of(*got);
    record.tensors.push_back(std::move(tensor));
  }
  for (const Tensor& t : observed.tensors.list())
    if (!known.expected.find(t.spec.name))
      record.accounting.complaints.push_back(
          fmt::format("'{}' has no truth to compare it with", t.spec.name));
}

// One side or both refuse these inputs (a golden may record that its source did).
bool refusals(CaseRecord& record, const Subject& subject, const Expected& expected,
              const Observed& observed) {
  if (expected.refused.empty() && observed.refused.empty()) return false;
  if (subject.check != Check::Golden && !expected.refused.empty())
    set_status(record, Status::Unsupported,
               "the reference refuses these inputs: " + expected.refused);
  else if (expected.refused.empty())
    set_status(record, Status::Fail,
               "the candidate refuses what the truth answers: " + observed.refused);
  else if (observed.refused.empty())
    set_status(record, Status::Fail,
               "the candidate answers what the truth refuses: " + expected.refused);
  else
    set_status(record, Status::Pass, "both refuse: " + observed.refused);
  if (record.status == name(Status::Fail)) {
    record.view = name(View::Exact);
    record.views = {record.view};
  }
  return true;
}

void walk_case(CaseRecord& record, const Subject& subject, const Candidate& candidate,
               const Known& known, const WalkOptions& walk) {
  const auto direction = direction_of(subject, candidate);
  if (!direction) return set_status(record, Status::Unsupported, "forward only");
  if (!candidate.run) throw Failure(candidate.name + " has nothing to run");
  const RunRequest request{.problem = subject.problem,
                           .inputs = known.inputs,
                           .direction = *direction,
                           .expected = &known.expected};
  if (subject.check == Check::Bitwise) return walk_bits(record, candidate, request, walk.repeat);

  BitCheck launched;
  // A kernel that claims no determinism is repeated all the same: how far its launches differ is
  // part of its noise.
  const bool on_device = candidate.kernel && runs_on_device(*candidate.kernel);
  const int repeat =
      std::max({walk.repeat, candidate.contract.deterministic ? 1 : kUnclaimedLaunches,
                on_device ? kDeviceLaunches : 1});
  if (repeat > 1 && !candidate.stored) {
    // Repeats alone here; thread counts and the op's invariants belong to the bitwise check.
    Candidate repeats = candidate;
    repeats.contract.invariant.clear();
    launched = check_bits(repeats, request, repeat);
  } else {
    launched.first = candidate.run(request);
  }
  const Observed& observed = launched.first;
  record.time_ms.kernel = observed.kernel_ms;
  account(record, observed);
  if (refusals(record, subject, known.expected, observed)) return;
  const auto start = Clock::now();
  compare_all(record, subject, candidate, known, launched, *direction, walk);
  record.time_ms.compare = ms_since(start);
  judge(record);
  if (record.status == name(Status::Pass) && !known.vacuous.empty())
    set_status(record, Status::Unproven,
               fmt::format("vacuous: {}", fmt::join(known.vacuous, "; ")));
}

std::string repro(const Subject& subject, const Candidate& candidate, const std::string& id) {
  if (!candidate.fault.empty() && subject.command.find(" --fault ") == std::string::npos)
    return fmt::format("parity mutate --only '{}!{}'", candidate.name, candidate.fault);
  std::string line = fmt::format("{} '{}'", subject.command, id);
  if (subject.direction != Direction::Both)
    line += fmt::format(" --direction {}", name(subject.direction));
  if (subject.check == Check::Bitwise) line += " --bitwise";
  if (subject.check == Check::Sharded || subject.check == Check::Drift)
    line += fmt::format(" --check {}", name(subject.check));
  return line;
}

}  // namespace

CaseRecord blank_record(const Subject& subject, const Candidate& candidate) {
  const Case& problem = subject.problem;
  CaseRecord r{.id = print_id(problem, candidate.name, candidate.options),
               .op = problem.op,
               .kernel = candidate.name,
               .dtype = std::string(name(problem.dtype)),
               .fill = problem.fill,
               .sizes_text = problem.sizes.str(),
               .options = problem.options.map(),
               .check = std::string(name(subject.check)),
               .lane = std::string(name(problem.lane)),
               .expected = candidate.expect_fail ? "fail" : "",
               .fault = candidate.fault,
               .contract = candidate.contract.name};
  for (const Size& size : problem.sizes.list()) r.sizes[size.name] = size.extent;
  if (problem.recorded.empty()) r.seed = problem.seed;
  r.direction = name(direction_of(subject, candidate).value_or(subject.direction));
  r.repro = repro(subject, candidate, r.id);
  return r;
}

CaseRecord run_case(const Subject& subject, const Candidate& candidate, const Known& known,
                    const WalkOptions& walk) {
  CaseRecord record;
  try {
    record = blank_record(subject, candidate);
    record.time_ms = known.times;
    if (!candidate.unsupported.empty()) {
      set_status(record, Status::Unsupported, candidate.unsupported);
      return record;
    }
    walk_case(record, subject, candidate, known, walk);
    record.hw_verified =
        candidate.hw_verified && !candidate.stored && record.status != name(Status::Unsupported);
    if (walk.waive && candidate.fault.empty()) apply_waivers(record, registry().waivers, today());
  } catch (const Unsupported& e) {
    set_status(record, Status::Unsupported, e.what());
  } catch (const LaunchError& e) {
    set_error(record, "crash", e.what());
  } catch (const DeviceError& e) {
    set_error(record, "device", e.what());
  } catch (const std::bad_alloc&) {
    set_error(record, "memory", "out of memory");
  } catch (const Failure& e) {
    set_error(record, "harness",
              fmt::format("{} ({}:{})", e.what(), in_repository(e.file), e.line));
  } catch (const std::exception& e) {
    set_error(record, "harness", e.what());
  } catch (...) {
    set_error(record, "harness", "something that is no exception was thrown");
  }
  return record;
}

}  // namespace parity
