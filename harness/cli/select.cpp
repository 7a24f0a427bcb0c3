#include "harness/cli/select.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <set>

#include "harness/cli/catalogue.hpp"
#include "harness/cuda/device_info.hpp"
#include "harness/environment.hpp"
#include "harness/failure.hpp"
#include "harness/launch.hpp"
#include "harness/text.hpp"
#include "harness/walk.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;

bool is_glob(std::string_view text) { return text.find_first_of("*?") != std::string_view::npos; }

void read_ids_into(const fs::path& file, std::set<fs::path>& open, std::vector<std::string>& ids) {
  const fs::path real = fs::weakly_canonical(file);
  if (!open.insert(real).second)
    throw UsageError(fmt::format("--from {}: the file includes itself", file.string()));
  std::ifstream in(file);
  if (!in || fs::is_directory(file))
    throw UsageError(fmt::format("--from {}: cannot be read", file.string()));
  for (std::string line; std::getline(in, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos) continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
    if (line.starts_with("--from "))
      read_ids_into(file.parent_path() / line.substr(7), open, ids);
    else
      ids.push_back(line);
  }
  open.erase(real);
}

struct Shard {
  std::size_t index = 0, count = 1;  // 0-based
};

Shard parse_shard(const std::string& text) {
  if (text.empty()) return {};
  const std::vector<std::string> parts = split(text, '/');
  if (parts.size() != 2)
    throw UsageError(fmt::format("--shard {}: write it I/N, 1/4 is the first of four", text));
  std::int64_t index = 0, count = 0;
  try {
    index = to_integer(parts[0], "--shard");
    count = to_integer(parts[1], "--shard");
  } catch (const std::exception&) {
    throw UsageError(fmt::format("--shard {}: write it I/N, 1/4 is the first of four", text));
  }
  if (count < 1 || index < 1 || index > count)
    throw UsageError(fmt::format("--shard {}: I is between 1 and N", text));
  return {static_cast<std::size_t>(index - 1), static_cast<std::size_t>(count)};
}

std::string id_with(const Case& problem, const Candidate& candidate) {
  return print_id(problem, candidate.name, candidate.options);
}

// The short form of an id, its fill in front: 'decoder/debug*'.
std::string by_fill(const Case& problem) {
  return fmt::format("{}/{}/{}", problem.op, problem.fill, name(problem.dtype));
}

bool names_case(std::string_view pattern, const Case& problem) {
  return glob_match(pattern, problem.id()) ||
         (problem.recorded.empty() && glob_match(pattern, by_fill(problem)));
}

// A pattern without '@' names cases, one with '@' names cases with kernels.
bool matches(std::string_view pattern, const Case& problem, const Candidate& candidate) {
  if (pattern.find('@') == std::string_view::npos && names_case(pattern, problem)) return true;
  return glob_match(pattern, id_with(problem, candidate)) ||
         glob_match(pattern, by_fill(problem) + '@' + candidate.name);
}

[[noreturn]] void nothing_matches(std::string_view flag, const std::string& pattern) {
  std::vector<std::string> ops;
  for (const OpDef& op : registry().ops) ops.emplace_back(op.name);
  const std::string op = pattern.substr(0, pattern.find('/')), near = nearest(op, ops);
  std::string hint = "; `parity list` shows what there is";
  if (near == op)
    hint = fmt::format("; `parity list '{}/*'` has the cases of this op", op);
  else if (!near.empty())
    hint = fmt::format("; did you mean the op '{}'?", near);
  throw UsageError(fmt::format("{}no case matches '{}'{}", flag, pattern, hint));
}

bool on_gpu(const Candidate& candidate) {
  if (candidate.kernel) return runs_on_device(*candidate.kernel);
  const KernelInfo* elsewhere = unloaded(candidate.name);
  return elsewhere && elsewhere->needs.starts_with("sm_");
}

// A device that was named and is not there is said before anything runs.
void check_device(const std::string& device) {
  if (device.empty() || device == "host") return;
  std::int64_t index = -1;
  try {
    index = to_integer(device, "--device");
  } catch (const std::exception&) {
    throw UsageError(fmt::format("--device {}: 'host' or the number of a CUDA device", device));
  }
  const DeviceReport report = query_devices();
  if (index < 0 || static_cast<std::size_t>(index) >= report.devices.size())
    throw DeviceAbsent(fmt::format(
        "--device {}: {}", device,
        report.devices.empty() ? report.reason
                               : fmt::format("there are {} devices", report.devices.size())));
}

// A case with every kernel that takes it, loaded here or not.
Subject with_all(const Case& problem, std::string_view kernels) {
  Subject subject = subject_of(problem, kernels);
  add_unloaded(subject, kernels);
  return subject;
}

// What an id names: the case with one kernel, or with all of them.
Subject named(const Case& problem, const ParsedId& parsed, std::string_view kernels) {
  if (parsed.kernel.empty()) return with_all(problem, kernels);
  const KernelInfo* elsewhere = unloaded(parsed.kernel);
  if (!elsewhere) return subject_of(problem, parsed.kernel, parsed.kernel_options);
  Subject subject = subject_of(problem, "");  // no kernel has no name
  subject.candidates.push_back(unloaded_candidate(*elsewhere, parsed.kernel_options));
  return subject;
}

// Of a case with all that it computes on the way also the same layers by themselves, where its op
// has them: whether an error is inherited.
std::optional<ParsedId> alone(const ParsedId& parsed) {
  const OpDef* op = registry().op(parsed.problem.op);
  const Options& options = parsed.problem.options;
  if (!op || !op->complete || !options.flag("taps") || options.flag("isolated")) return {};
  ParsedId other = parsed;
  other.problem.options.set("isolated", "1");
  if (op->refuses && !op->refuses(other.problem).empty()) return {};
  return other;
}

template <class Keep>
void keep_candidates(std::vector<Subject>& subjects, const Keep& keep) {
  for (Subject& subject : subjects)
    std::erase_if(subject.candidates,
                  [&](const Candidate& candidate) { return !keep(subject.problem, candidate); });
  std::erase_if(subjects, [](const Subject& subject) { return subject.candidates.empty(); });
}

void check_kernel_glob(const std::string& glob) {
  std::vector<std::string> known;
  for (const KernelInfo& kernel : catalogue().kernels) known.push_back(kernel.name);
  for (const std::string& kernel : known)
    if (glob_match(glob, kernel)) return;
  const std::string near = nearest(glob, known);
  throw UsageError(fmt::format("--kernel {}: no such kernel{}", glob,
                               near.empty() ? "; `parity list` shows what there is"
                                            : fmt::format("; did you mean '{}'?", near)));
}

}  // namespace

Lane lane_of(const Arguments& args, Lane otherwise) {
  if (!args.lane.empty()) return parse_lane(args.lane);
  std::vector<std::string> globs = args.names;
  std::erase_if(globs, [](const std::string& name) { return !is_glob(name); });
  const auto has = [](const std::vector<Case>& cases, const std::string& glob) {
    const std::string_view of_case = std::string_view(glob).substr(0, glob.find('@'));
    return std::ranges::any_of(cases, [&](const Case& c) { return names_case(of_case, c); });
  };
  for (const Lane lane : {otherwise, Lane::Full, Lane::Long}) {
    if (lane < otherwise || globs.empty()) continue;
    const std::vector<Case> cases = expand(registry(), lane);
    if (std::ranges::all_of(globs, [&](const std::string& glob) { return has(cases, glob); }))
      return lane;
  }
  return otherwise;
}

std::uint64_t seed_shift_of(const Arguments& args, Lane lane) {
  if (args.seed) return *args.seed;
  if (lane != Lane::Sweep) return 0;
  using namespace std::chrono;
  return static_cast<std::uint64_t>(floor<days>(system_clock::now()).time_since_epoch().count());
}

std::vector<std::string> read_ids(const std::string& file) {
  std::vector<std::string> ids;
  std::set<fs::path> open;
  read_ids_into(file, open, ids);
  return ids;
}

std::vector<std::string> patterns_of(const Arguments& args) {
  std::vector<std::string> patterns = args.names;
  for (const std::string& file : args.from)
    for (std::string& id : read_ids(file)) patterns.push_back(std::move(id));
  if (!args.from.empty() && patterns.empty())
    throw UsageError(fmt::format("--from {}: names no case", args.from.front()));
  return patterns;
}

std::vector<Subject> select(const Arguments& args, Lane lane) {
  check_device(args.device);
  if (!args.kernel.empty()) check_kernel_glob(args.kernel);
  const std::vector<std::string> patterns = patterns_of(args);
  const std::string_view kernels = args.kernel.empty() ? std::string_view("*") : args.kernel;
  std::vector<Subject> subjects;

  std::vector<std::string> globs;
  for (const std::string& pattern : patterns) {
    if (is_glob(pattern)) {
      globs.push_back(pattern);
      continue;
    }
    const ParsedId parsed = parse_id(pattern);
    subjects.push_back(named(resolve(registry(), parsed), parsed, kernels));
    if (const std::optional<ParsedId> layers = alone(parsed))
      subjects.push_back(named(resolve(registry(), *layers), *layers, kernels));
  }
  if (patterns.empty() || !globs.empty()) {
    const std::uint64_t shift = seed_shift_of(args, lane);
    std::vector<Subject> declared;
    for (Case& problem : expand(registry(), lane, shift)) {
      if (lane != Lane::Sweep) problem.seed += shift;
      declared.push_back(with_all(problem, kernels));
    }
    if (!globs.empty()) {
      std::vector<bool> hit(globs.size(), false);
      keep_candidates(declared, [&](const Case& problem, const Candidate& candidate) {
        bool keep = false;
        for (std::size_t i = 0; i < globs.size(); ++i)
          if (matches(globs[i], problem, candidate)) keep = hit[i] = true;
        return keep;
      });
      for (std::size_t i = 0; i < globs.size(); ++i)
        if (!hit[i]) nothing_matches("", globs[i]);
    }
    std::ranges::move(declared, std::back_inserter(subjects));
  }
  Arguments filters = args;
  filters.names.clear();  // used up
  filters.from.clear();
  return narrow(std::move(subjects), filters);
}

std::vector<Case> select_cases(const Arguments& args, Lane lane) {
  std::vector<std::string> patterns = patterns_of(args);
  if (patterns.empty()) patterns = {"*"};
  const std::uint64_t shift = seed_shift_of(args, lane);
  std::vector<Case> declared, cases;
  std::set<std::string> ids;
  const auto add = [&](const Case& problem) {
    if (ids.insert(problem.id()).second) cases.push_back(problem);
  };
  for (const std::string& pattern : patterns) {
    if (!is_glob(pattern)) {
      add(resolve(registry(), parse_id(pattern)));
      continue;
    }
    if (declared.empty()) {
      declared = expand(registry(), lane, shift);
      if (lane != Lane::Sweep)
        for (Case& problem : declared) problem.seed += shift;
    }
    bool hit = false;
    for (const Case& problem : declared)
      if (names_case(pattern, problem)) add(problem), hit = true;
    if (!hit) nothing_matches("", pattern);
  }
  return cases;
}

std::vector<Subject> narrow(std::vector<Subject> subjects, const Arguments& args) {
  const std::vector<std::string> patterns = patterns_of(args);
  for (const auto& [flag, globs] : {std::pair("", &patterns), std::pair("--only: ", &args.only)}) {
    if (globs->empty()) continue;
    const bool was_empty = subjects.empty();
    keep_candidates(subjects, [&](const Case& problem, const Candidate& candidate) {
      return std::ranges::any_of(
          *globs, [&](const std::string& glob) { return matches(glob, problem, candidate); });
    });
    if (subjects.empty() && !was_empty) nothing_matches(flag, globs->front());
  }
  if (!args.check.empty()) {
    const Check wanted = parse_check(args.check);
    std::erase_if(subjects, [&](const Subject& subject) { return subject.check != wanted; });
  }
  if (args.bitwise)
    for (Subject& subject : subjects) subject.check = subject.problem.check = Check::Bitwise;
  if (!args.device.empty())
    keep_candidates(subjects, [&](const Case&, const Candidate& candidate) {
      return candidate.stored || on_gpu(candidate) == (args.device != "host");
    });
  if (!args.start.empty()) {
    const auto first = std::ranges::find_if(subjects, [&](const Subject& subject) {
      return subject.problem.id() == args.start ||
             std::ranges::any_of(subject.candidates, [&](const Candidate& candidate) {
               return id_with(subject.problem, candidate) == args.start;
             });
    });
    if (first == subjects.end())
      throw UsageError(fmt::format("--start {}: not among the cases that would run", args.start));
    subjects.erase(subjects.begin(), first);
  }
  const Shard shard = parse_shard(args.shard);
  std::vector<Subject> mine;
  for (std::size_t i = shard.index; i < subjects.size(); i += shard.count)
    mine.push_back(std::move(subjects[i]));
  return mine;
}

SuiteOptions suite_options(const Arguments& args) {
  SuiteOptions options;
  options.jobs = args.jobs;
  options.timeout_s = args.timeout_s;
  options.memory_bytes = args.memory_mib << 20;
  options.repeat = args.bitwise ? std::max(2, args.repeat) : args.repeat;
  options.isolate = args.isolate;
  options.direction = parse_direction(args.direction);
  options.torch_library = torch_library_path();
  return options;
}

}  // namespace parity::cli
