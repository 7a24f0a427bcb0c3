// parity history DIR: a folder of runs, oldest first; steps of the last one, inside the bound or
// not. And what `parity diff` says of two runs.
#include "harness/cli/history.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/failure.hpp"
#include "reports/json_writer.hpp"
#include "reports/runs.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;

struct Given {
  std::string folder = {}, page = {};
} given;

constexpr std::size_t kLines = 30;

std::string_view word(reports::Move::Kind kind) {
  switch (kind) {
    case reports::Move::Kind::Worse:
      return "worse";
    case reports::Move::Kind::Better:
      return "better";
    case reports::Move::Kind::Missing:
      return "missing";
    case reports::Move::Kind::New:
      return "new";
    case reports::Move::Kind::Step:
      return "step";
  }
  return "";
}

std::vector<reports::RunFolder> runs_in(const std::string& folder) {
  if (!fs::is_directory(folder)) throw UsageError(fmt::format("{}: no such folder", folder));
  std::vector<reports::RunFolder> runs;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (is_run(entry.path())) runs.push_back(reports::read_run(entry.path()));
  if (runs.size() < 2)
    throw UsageError(fmt::format("{}: a history is at least two folders of runs", folder));
  std::ranges::stable_sort(runs, {}, [](const auto& run) { return run.run.started; });
  return runs;
}

int show_history(const Arguments& args) {
  const std::vector<reports::RunFolder> runs = runs_in(given.folder);
  const std::vector<reports::Series> all = reports::history(runs);
  const auto steps = std::ranges::count_if(all, [](const auto& s) { return s.step; });
  const std::string page =
      given.page.empty() ? (fs::path(given.folder) / "history.html").string() : given.page;
  reports::write_atomically(page, reports::history_page(runs, all));
  if (args.json) {
    reports::JsonWriter out;
    out.begin_object()
        .field("schema", 1)
        .field("runs", std::ssize(runs))
        .key("steps")
        .begin_array();
    for (const reports::Series& s : all)
      if (s.step)
        out.begin_object()
            .field("id", s.id)
            .field("tensor", s.tensor)
            .field("factor", s.factor)
            .field("noise_units", s.noise_units)
            .field("bound_used", s.bound_used)
            .end_object();
    print(out.end_array().field("page", page).field("exit", 0).end_object().text() + "\n");
    return 0;
  }
  std::string text;
  std::size_t shown = 0;
  for (const reports::Series& s : all) {
    if (!s.step || (!args.verbose && ++shown > kLines)) break;
    text += fmt::format(
        "step     {} {}: error {}x the median before ({:+.2g} noise floors), {} of "
        "the bound\n",
        reports::visible(s.id), s.tensor, reports::number(s.factor), s.noise_units,
        reports::number(s.bound_used.back()));
  }
  print(text + fmt::format("{}, {}, {} in the last one\npage: {}\n",
                           reports::count_of(std::ssize(runs), "run"),
                           reports::count_of(std::ssize(all), "tensor"),
                           reports::count_of(steps, "step"), page));
  return 0;
}

const RegisterVerb verb{{
    .path = "history",
    .what = "A folder of runs: which errors made a step in the last one, also inside their bound",
    .examples = "  parity run --lane full --out nightly/$(date +%F)\n"
                "  parity history nightly                  writes nightly/history.html",
    .options = {{.names = "folder",
                 .type = "DIR",
                 .to = &given.folder,
                 .what = "Folder whose folders are runs",
                 .required = true},
                {.names = "--page",
                 .type = "FILE",
                 .to = &given.page,
                 .what = "Where the page goes; default: history.html in the folder"}},
    .call = show_history,
}};

}  // namespace

bool is_run(const fs::path& folder) {
  return fs::is_directory(folder) && fs::exists(folder / "records.jsonl");
}

int diff_runs(const Arguments& args) {
  const reports::RunDiff diff = reports::compare_runs(reports::read_run(args.names.at(0)),
                                                      reports::read_run(args.names.at(1)));
  if (args.json) {
    reports::JsonWriter out;
    out.begin_object().field("schema", 1).field("common", diff.common).key("moves").begin_array();
    for (const reports::Move& move : diff.moves)
      out.begin_object()
          .field("kind", word(move.kind))
          .field("id", move.id)
          .field("tensor", move.tensor)
          .field("what", move.text)
          .field("factor", move.factor)
          .field("noise_units", move.noise_units)
          .end_object();
    print(out.end_array().field("exit", diff.exit()).end_object().text() + "\n");
    return diff.exit();
  }
  std::string text;
  std::size_t shown = 0;
  for (const reports::Move& move : diff.moves) {
    if (!args.verbose && ++shown > kLines) {
      text += fmt::format("         and {} more: -v\n", diff.moves.size() - kLines);
      break;
    }
    text += fmt::format("{:<8} {}{} {}\n", word(move.kind), reports::visible(move.id),
                        move.tensor.empty() ? "" : " " + move.tensor, reports::visible(move.text));
  }
  print(text + fmt::format("{} in both runs, {} moved\n", reports::count_of(diff.common, "record"),
                           diff.moves.size()));
  return diff.exit();
}

}  // namespace parity::cli
