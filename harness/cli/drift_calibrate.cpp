// parity drift-calibrate [LOG...]: how often `parity drift` fails a clean run, measured, and what
// it finds, beside rules in use elsewhere. Synthetic ensembles, drawn anew for every candidate;
// with logs of clean runs, ensembles and candidates drawn from these.
#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <thread>

#include "golden/io/log_walk.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/drift/columns.hpp"
#include "harness/drift/judge.hpp"
#include "harness/drift/synthetic.hpp"
#include "harness/failure.hpp"
#include "reports/json_writer.hpp"

namespace parity::cli {
namespace {

struct Given {
  std::vector<std::string> logs = {};
  int trials = 1000, references = 99, power_trials = 200, steps = 128;
  double alpha = 0.01;
  std::int64_t seed = 1;
} given;

using drift::Share;

// Every trial has draws of its own, so that the result does not depend on the threads.
template <class Trial>
void in_parallel(int trials, int jobs, Trial&& trial) {
  const int threads = jobs > 0 ? jobs : static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::jthread> pool;
  for (int first = 0; first < std::max(1, threads); ++first)
    pool.emplace_back([&, first] {
      for (int i = first; i < trials; i += std::max(1, threads)) trial(i);
    });
}

struct Alarms {
  std::string what = {};
  std::int64_t references = 0;
  double attained = 0;
  Share failed = {};
  bool holds = false;  // the interval holds the attained alpha
};

Alarms alarms_of(const std::string& what, std::int64_t references,
                 std::span<const drift::Judgement> judged) {
  Alarms alarms{.what = what, .references = references};
  for (const drift::Judgement& j : judged) {
    alarms.attained = j.attainable;
    alarms.failed.hits += j.verdict == drift::Verdict::Fail;
    ++alarms.failed.of;
  }
  alarms.holds = alarms.failed.low() <= alarms.attained && alarms.attained <= alarms.failed.high();
  return alarms;
}

std::vector<Alarms> synthetic_alarms(int jobs) {
  std::vector<Alarms> list;
  const drift::Ensemble ensemble{.references = static_cast<std::size_t>(given.references),
                                 .steps = given.steps};
  std::uint64_t kind = 0;
  for (const drift::Noise& noise : drift::noises()) {
    std::vector<drift::Judgement> judged(static_cast<std::size_t>(given.trials));
    const Rng rng{.seed = static_cast<std::uint64_t>(given.seed), .stream = ++kind};
    in_parallel(given.trials, jobs, [&](int i) {
      const drift::Draw draw =
          drift::draw(ensemble, noise, {}, rng.split(static_cast<std::uint64_t>(i)));
      judged[static_cast<std::size_t>(i)] = drift::judge(draw.columns, given.alpha);
    });
    list.push_back(alarms_of(noise.name, given.references, judged));
  }
  return list;
}

struct Power {
  std::string plant = {};
  std::vector<Share> found = {};  // by the ensemble, then by each rule
  std::vector<double> area = {};  // under the ROC curve, of the same
};

std::vector<Power> power_of(int jobs) {
  const drift::Ensemble ensemble{.references = static_cast<std::size_t>(given.references),
                                 .steps = given.steps};
  const std::size_t methods = 1 + drift::rules().size();
  std::vector<drift::Planted> plants = {{.name = "clean: false alarms"}};
  plants.insert(plants.end(), drift::plants().begin(), drift::plants().end());
  std::vector<std::vector<double>> clean;
  std::vector<Power> list;
  for (std::size_t p = 0; p < plants.size(); ++p) {
    const auto trials = static_cast<std::size_t>(given.power_trials);
    std::vector<std::vector<double>> scores(methods, std::vector<double>(trials));
    std::vector<char> failed(trials);
    const Rng rng{.seed = static_cast<std::uint64_t>(given.seed), .stream = 1000 + p};
    in_parallel(given.power_trials, jobs, [&](int i) {
      const auto at = static_cast<std::size_t>(i);
      const drift::Draw draw =
          drift::draw(ensemble, drift::noises().front(), plants[p], rng.split(at));
      const drift::Judgement j = drift::judge(draw.columns, given.alpha);
      failed[at] = j.verdict == drift::Verdict::Fail;
      scores[0][at] = j.z;
      for (std::size_t r = 0; r < drift::rules().size(); ++r)
        scores[r + 1][at] = drift::rules()[r].score(draw.candidate, draw.reference);
    });
    if (p == 0) clean = scores;
    Power power{.plant = plants[p].name};
    for (std::size_t m = 0; m < methods; ++m) {
      Share share{.of = given.power_trials};
      for (std::size_t i = 0; i < trials; ++i)
        share.hits += m == 0 ? failed[i] != 0 : !(scores[m][i] <= drift::rules()[m - 1].limit);
      power.found.push_back(share);
      power.area.push_back(drift::roc_area(clean[m], scores[m]));
    }
    list.push_back(power);
  }
  return list;
}

// Of real clean runs: a candidate and its references drawn without replacement.
Alarms real_alarms(int jobs) {
  const io::LogOptions options{.wanted = [](std::string_view name) {
    const drift::Role role = drift::meaning_of(name).role;
    return role == drift::Role::Loss || role == drift::Role::GradNorm ||
           role == drift::Role::Parameter;
  }};
  std::vector<io::RunLog> logs;
  for (const std::string& path : given.logs) logs.push_back(io::read_log(path, options));
  const auto runs = static_cast<std::size_t>(given.references) + 1;
  if (runs > logs.size())
    throw UsageError(fmt::format("{} logs: --references {} needs {} of them", logs.size(),
                                 given.references, runs));
  struct Table {
    std::string name = {};
    std::vector<std::vector<double>> rows = {};  // by step, a value a log
  };
  std::vector<Table> tables;
  for (const io::Series& own : logs.front().series) {
    std::vector<const io::Series*> series;
    for (const io::RunLog& log : logs)
      if (const io::Series* s = log.find(own.name())) series.push_back(s);
    if (series.size() != logs.size()) continue;
    Table& table = tables.emplace_back(Table{.name = own.name()});
    io::walk_common_steps(series, [&](std::int64_t, std::span<const double> values) {
      table.rows.emplace_back(values.begin(), values.end());
    });
  }
  std::vector<drift::Judgement> judged(static_cast<std::size_t>(given.trials));
  const Rng rng{.seed = static_cast<std::uint64_t>(given.seed), .stream = 77};
  in_parallel(given.trials, jobs, [&](int i) {
    const Rng draws = rng.split(static_cast<std::uint64_t>(i));
    std::vector<std::size_t> order(logs.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t k = 0; k < runs; ++k)
      std::swap(order[k], order[static_cast<std::size_t>(draws.integer(
                              k, static_cast<std::int64_t>(k), std::ssize(order) - 1))]);
    std::vector<drift::Column> columns;
    std::vector<double> values(runs);
    for (const Table& table : tables) {
      drift::Column& column = columns.emplace_back(
          drift::ColumnOptions{.name = table.name, .runs = runs, .steps = std::ssize(table.rows)});
      std::int64_t step = 0;
      for (const std::vector<double>& row : table.rows) {
        for (std::size_t k = 0; k < runs; ++k) values[k] = row[order[k]];
        column.add(step++, values, values[0] * 0x1p-23);
      }
    }
    judged[static_cast<std::size_t>(i)] = drift::judge(columns, given.alpha);
  });
  return alarms_of(fmt::format("{} real runs, drawn again", logs.size()), given.references, judged);
}

std::string alarms_text(std::span<const Alarms> list) {
  std::string text = fmt::format(
      "| clean candidates against ensembles drawn anew | K | alpha | attained | failed | 95 % "
      "interval |\n|---|---|---|---|---|---|\n");
  for (const Alarms& a : list)
    text += fmt::format("| {} | {} | {:g} | {:.4f} | {} of {} | {:.4f} to {:.4f}{} |\n", a.what,
                        a.references, given.alpha, a.attained, a.failed.hits, a.failed.of,
                        a.failed.low(), a.failed.high(), a.holds ? "" : ": NOT HELD");
  return text;
}

std::string power_text(std::span<const Power> list) {
  std::string text = fmt::format("\n| planted, {} runs each | parity drift |", given.power_trials);
  for (const drift::Rule& rule : drift::rules()) text += fmt::format(" {} |", rule.name);
  text += "\n|---|---|" + std::string();
  for (std::size_t r = 0; r < drift::rules().size(); ++r) text += "---|";
  text += "\n";
  for (const Power& power : list) {
    text += fmt::format("| {} |", power.plant);
    for (std::size_t m = 0; m < power.found.size(); ++m)
      text += &power == &list.front() ? fmt::format(" {:.0f} % |", 100 * power.found[m].value())
                                      : fmt::format(" {:.0f} % ({:.2f}) |",
                                                    100 * power.found[m].value(), power.area[m]);
    text += "\n";
  }
  return text + "\nFound, and in brackets the area under the ROC curve: 0.5 is a guess.\n";
}

std::string json_of(std::span<const Alarms> alarms, std::span<const Power> powers, int exit) {
  reports::JsonWriter out;
  out.begin_object().field("schema", 1).field("alpha", given.alpha).key("false_alarms");
  out.begin_array();
  for (const Alarms& a : alarms)
    out.begin_object()
        .field("noise", a.what)
        .field("k", a.references)
        .field("attained", a.attained)
        .field("failed", a.failed.hits)
        .field("of", a.failed.of)
        .field("low", a.failed.low())
        .field("high", a.failed.high())
        .field("holds", a.holds)
        .end_object();
  out.end_array().key("power").begin_array();
  for (const Power& p : powers) {
    out.begin_object().field("planted", p.plant).key("found").begin_object();
    for (std::size_t m = 0; m < p.found.size(); ++m)
      out.field(m == 0 ? "parity drift" : drift::rules()[m - 1].name, p.found[m].value());
    out.end_object().key("roc_area").begin_object();
    for (std::size_t m = 0; m < p.area.size(); ++m)
      out.field(m == 0 ? "parity drift" : drift::rules()[m - 1].name, p.area[m]);
    out.end_object().end_object();
  }
  out.end_array().field("exit", exit).end_object();
  return out.text() + "\n";
}

int drift_calibrate(const Arguments& args) {
  std::vector<Alarms> alarms;
  std::vector<Power> powers;
  if (given.logs.empty()) {
    alarms = synthetic_alarms(args.jobs);
    if (given.power_trials > 0) powers = power_of(args.jobs);
  } else {
    alarms = {real_alarms(args.jobs)};
  }
  const bool holds = std::ranges::all_of(alarms, &Alarms::holds);
  const bool possible = std::ranges::all_of(alarms, [](const Alarms& a) { return a.attained > 0; });
  const int exit = !possible ? 4 : holds ? 0 : 1;
  if (args.json)
    print(json_of(alarms, powers, exit));
  else
    print(alarms_text(alarms) + (powers.empty() ? "" : power_text(powers)));
  if (!possible) complain(fmt::format("alpha {:g} needs more references", given.alpha));
  return exit;
}

const RegisterVerb verb{{
    .path = "drift-calibrate",
    .what = "Measures the false-alarm rate and the power of `parity drift`",
    .examples =
        "  parity drift-calibrate                    the table of the README, in a minute\n"
        "  parity drift-calibrate clean/*.csv --references 8 --alpha 0.125\n"
        "                                            of real runs that are known to be right",
    .options = {{.names = "logs",
                 .type = "LOG",
                 .to = &given.logs,
                 .what = "Clean runs to draw ensembles and candidates from; none: synthetic ones"},
                {.names = "--alpha",
                 .type = "P",
                 .to = &given.alpha,
                 .what = "Chance to fail a clean run; default 0.01",
                 .least = 1e-6,
                 .most = 0.5},
                {.names = "--references",
                 .type = "K",
                 .to = &given.references,
                 .what = "References of each ensemble; default 99",
                 .least = 2,
                 .most = 1000},
                {.names = "--trials",
                 .type = "N",
                 .to = &given.trials,
                 .what = "Clean candidates of each kind of noise; default 1000",
                 .least = 1,
                 .most = 1000000},
                {.names = "--power-trials",
                 .type = "N",
                 .to = &given.power_trials,
                 .what = "Candidates with each planted drift; default 200",
                 .least = 0,
                 .most = 100000},
                {.names = "--steps",
                 .type = "N",
                 .to = &given.steps,
                 .what = "Steps of a run; default 128",
                 .least = 16,
                 .most = 1000000},
                {.names = "--draw",
                 .type = "N",
                 .to = &given.seed,
                 .what = "Another draw of everything; default 1",
                 .least = 0,
                 .most = 1e15}},
    .call = drift_calibrate,
}};

}  // namespace
}  // namespace parity::cli
