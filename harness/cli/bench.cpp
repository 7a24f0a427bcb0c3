// parity bench: Google Benchmark with a table and a JSON of our own.
//
// A benchmark says in its label what its limit is: "limit=<name of another
// benchmark>;what=<words>;target=<ratio>". The limit runs in the same process, so that both see the
// same machine; the ratio is the share of it that was reached (rates: value over limit; times:
// limit over value).
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cmath>
#include <dlfcn.h>
#include <fmt/format.h>
#include <map>

#include "harness/case.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/environment.hpp"
#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

struct Measured {
  std::string name = {}, metric = {}, unit = {}, limit = {}, what = {}, error = {};
  double target = 0;
  bool rate = false;  // more is better
  std::vector<double> values = {};

  double at(double share) const {
    std::vector<double> sorted = values;
    std::ranges::sort(sorted);
    return sorted.empty() ? NAN
                          : sorted[static_cast<std::size_t>(
                                share * static_cast<double>(sorted.size() - 1) + 0.5)];
  }
  double median() const { return at(0.5); }
};

void read_label(const std::string& label, Measured& into) {
  for (const std::string& part : split(label, ';')) {
    if (part.starts_with("limit="))
      into.limit = part.substr(6);
    else if (part.starts_with("what="))
      into.what = part.substr(5);
    else if (part.starts_with("target="))
      into.target = to_real(part.substr(7), "target");
  }
}

// The metric of a run: bytes/s, else items/s, else its only own counter, else its time.
void read_metric(const benchmark::BenchmarkReporter::Run& run, Measured& into) {
  const auto counter = [&](const char* name) { return run.counters.find(name); };
  if (const auto bytes = counter("bytes_per_second"); bytes != run.counters.end()) {
    into.metric = "bandwidth", into.unit = "B/s", into.rate = true;
    into.values.push_back(bytes->second.value);
  } else if (const auto items = counter("items_per_second"); items != run.counters.end()) {
    into.metric = "rate", into.unit = "1/s", into.rate = true;
    into.values.push_back(items->second.value);
  } else if (run.counters.size() == 1) {
    const auto& [name, own] = *run.counters.begin();
    into.metric = name, into.unit = (own.flags & benchmark::Counter::kIsRate) ? "1/s" : "",
    into.rate = true;
    into.values.push_back(own.value);
  } else {
    into.metric = "time", into.unit = "ms";
    into.values.push_back(run.GetAdjustedRealTime() *
                          benchmark::GetTimeUnitMultiplier(benchmark::kMillisecond) /
                          benchmark::GetTimeUnitMultiplier(run.time_unit));
  }
}

class Collector : public benchmark::BenchmarkReporter {
 public:
  explicit Collector(bool quiet) : quiet_(quiet) {}
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const std::string name =
          run.run_name.function_name + (run.run_name.args.empty() ? "" : "/" + run.run_name.args);
      const auto [place, is_new] = place_.emplace(name, measured.size());
      if (is_new) measured.push_back({.name = name});
      Measured& into = measured[place->second];
      if (is_new && !quiet_) fmt::print(stderr, "{}\n", name);
      if (run.error_occurred) {
        into.error = run.error_message;
        continue;
      }
      read_label(run.report_label, into);
      read_metric(run, into);
    }
  }

  std::vector<Measured> measured = {};

 private:
  std::map<std::string, std::size_t> place_ = {};
  bool quiet_ = false;
};

std::string scaled(double value, const std::string& unit) {
  if (unit == "B/s") return fmt::format("{} GB/s", reports::number(value / 1e9));
  if (unit == "1/s" && value >= 1e9) return fmt::format("{} G/s", reports::number(value / 1e9));
  if (unit == "1/s" && value >= 1e6) return fmt::format("{} M/s", reports::number(value / 1e6));
  return fmt::format("{} {}", reports::number(value), unit);
}

const Measured* find(const std::vector<Measured>& list, const std::string& name) {
  const auto found = std::ranges::find(list, name, &Measured::name);
  return found == list.end() ? nullptr : &*found;
}

// Share of the limit that was reached; NaN where there is none.
double ratio(const Measured& measured, const Measured* limit) {
  if (!limit || limit->values.empty() || measured.values.empty()) return NAN;
  return measured.rate ? measured.median() / limit->median() : limit->median() / measured.median();
}

// "compare/f32/268435456" -> "compare", "f32/268435456"
std::pair<std::string, std::string> parts_of(const std::string& name) {
  const std::size_t slash = name.find('/');
  return {name.substr(0, slash), slash == std::string::npos ? "" : name.substr(slash + 1)};
}

std::string json(const std::vector<Measured>& list) {
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).key("benchmarks").begin_array();
  for (const Measured& m : list) {
    const Measured* limit = find(list, m.limit);
    const double share = ratio(m, limit);
    out.begin_object()
        .field("name", m.name)
        .field("case", parts_of(m.name).second)
        .field("metric", m.metric)
        .field("value", m.median());
    out.field("unit", m.unit).key("limit");
    if (limit)
      out.value(limit->median());
    else
      out.null();
    out.field("limit_what", m.what).key("ratio");
    if (std::isnan(share))
      out.null();
    else
      out.value(share);
    if (m.target > 0) out.field("target", m.target);
    if (!m.error.empty()) out.field("error", m.error);
    out.field("repeats", m.values.size())
        .field("min", m.at(0))
        .field("median", m.median())
        .field("max", m.at(1))
        .end_object();
  }
  return out.end_array().end_object().text() + "\n";
}

std::string table(const std::vector<Measured>& list) {
  std::size_t width = 20;
  for (const Measured& m : list) width = std::max(width, m.name.size());
  std::string text = fmt::format("{:<{}} {:>14} {:>14} {:>14}  {}\n", "benchmark", width, "median",
                                 "min", "max", "share of its limit");
  for (const Measured& m : list) {
    if (!m.error.empty()) {
      text += fmt::format("{:<{}} {}\n", m.name, width, m.error);
      continue;
    }
    text += fmt::format("{:<{}} {:>14} {:>14} {:>14}", m.name, width, scaled(m.median(), m.unit),
                        scaled(m.at(0), m.unit), scaled(m.at(1), m.unit));
    if (const double share = ratio(m, find(list, m.limit)); !std::isnan(share)) {
      text += fmt::format("  {:.2f} of {}", share, m.what.empty() ? m.limit : m.what);
      if (m.target > 0)
        text += fmt::format(" (target {}: {})", reports::number(m.target),
                            share >= m.target ? "reached" : "missed");
    }
    text += '\n';
  }
  return text;
}

// Google Benchmark filters by regular expression.
std::string regex_of(const std::vector<std::string>& globs) {
  std::string regex;
  for (const std::string& glob : globs) {
    regex += regex.empty() ? "^(" : "|";
    for (const char c : glob) {
      if (c == '*')
        regex += ".*";
      else if (c == '?')
        regex += '.';
      else
        regex += std::string_view(".^$+()[]{}|\\").find(c) == std::string_view::npos
                     ? std::string(1, c)
                     : std::string("\\") + c;
    }
  }
  // What Google Benchmark appends to a name, "/min_time:0.300/real_time", is no part of it here.
  constexpr const char* kSettings =
      "(/(min_time:[0-9.]+|iterations:[0-9]+|real_time|manual_time))*$";
  return regex.empty() ? "." : regex + ")" + kSettings;
}

struct Given {
  std::vector<std::string> only = {};
  int repeats = 3;
} given;

int bench(const Arguments& args) {
  if (const std::string library = torch_library_path();
      !library.empty())  // its benchmarks are the rivals
    if (!::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL))
      complain(fmt::format("{} cannot be loaded: {}", library, ::dlerror()));
  std::vector<std::string> flags = {"parity",
                                    fmt::format("--benchmark_repetitions={}", given.repeats)};
  std::vector<char*> argv;
  for (std::string& flag : flags) argv.push_back(flag.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  Collector collector(args.quiet || args.json);
  benchmark::RunSpecifiedBenchmarks(&collector, regex_of(given.only));
  std::vector<std::string>
      limits;  // that the filter left out: a share needs its limit, of the same minute
  for (const Measured& m : collector.measured)
    if (!m.limit.empty() && !find(collector.measured, m.limit)) limits.push_back(m.limit);
  if (!limits.empty()) benchmark::RunSpecifiedBenchmarks(&collector, regex_of(limits));
  benchmark::Shutdown();
  if (collector.measured.empty())
    throw UsageError(given.only.empty()
                         ? "this executable holds no benchmark"
                         : fmt::format("--only {}: no such benchmark", given.only.front()));
  print(args.json ? json(collector.measured) : table(collector.measured));
  // A rival that is not installed is no fault.
  const bool broken = std::ranges::any_of(collector.measured, [](const Measured& m) {
    return !m.error.empty() && !m.error.starts_with("unsupported:");
  });
  return broken ? 3 : 0;
}

const RegisterVerb verb{{
    .path = "bench",
    .what =
        "Speed of kernels, of the comparator and of rival rules, beside a limit measured in the "
        "same run",
    .examples = "  parity bench --only 'compare/*' --repeats 5\n  parity bench --json > bench.json",
    .options = {{.names = "--only",
                 .type = "GLOB",
                 .to = &given.only,
                 .what = "Keep benchmarks that match this glob"},
                {.names = "--repeats",
                 .type = "N",
                 .to = &given.repeats,
                 .what = "Measurements of each; the median counts",
                 .least = 1,
                 .most = 1000}},
    .call = bench,
}};

}  // namespace
}  // namespace parity::cli
