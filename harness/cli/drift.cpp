// parity drift CANDIDATE REF...: is a training run one more member of an ensemble?
#include <algorithm>
#include <filesystem>

#include "harness/cli/drift_runs.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/failure.hpp"
#include "reports/drift_page.hpp"

namespace parity::cli {
namespace {

DriftQuestion given;
struct {
  std::vector<std::string> pages = {};
  std::string figure = {};
  bool dark = false;
} shown;

std::size_t figure_of(const reports::DriftReport& report) {
  const drift::Judgement& j = report.judgement;
  if (shown.figure.empty()) return j.verdict == drift::Verdict::Fail ? j.telling : 0;
  const auto it = std::ranges::find(j.columns, shown.figure, &drift::ColumnVerdict::name);
  if (it == j.columns.end())
    throw UsageError("--figure " + shown.figure + ": no such column was judged");
  return static_cast<std::size_t>(it - j.columns.begin());
}

void write_page(const reports::DriftReport& report, const std::string& file,
                const std::string& command) {
  const std::string suffix = std::filesystem::path(file).extension();
  if (suffix == ".html") return reports::write_atomically(file, drift_page(report, command));
  if (suffix != ".svg" && suffix != ".png")
    throw UsageError("--page " + file + ": .html, .svg or .png is needed");
  if (report.judgement.columns.empty()) throw UsageError("--page " + file + ": nothing to draw");
  const reports::Drawing drawing = reports::drift_figure(report, figure_of(report));
  reports::write_atomically(file, suffix == ".svg" ? reports::svg_of(drawing, true)
                                                   : reports::png_of(drawing, shown.dark));
}

int drift_of(const Arguments& args) {
  const reports::DriftReport report = judge_logs(given);
  for (const std::string& file : shown.pages) write_page(report, file, args.command);
  print(args.json ? reports::drift_json(report) : reports::console_drift(report, style_of(args)));
  return reports::exit_of(report);
}

const RegisterVerb verb{{
    .path = "drift",
    .what = "Judges the loss and the gradient norms of a run against an ensemble of runs",
    .examples = "  parity drift candidate.csv ref/*.csv\n"
                "  parity drift run.jsonl ref/*.jsonl --loss train/lm_loss --alpha 0.01\n"
                "  parity drift tb/new tb/ref_*           folders of TensorBoard event files",
    .options =
        {{.names = "candidate",
          .type = "LOG",
          .to = &given.candidate,
          .what = "The run in question: CSV, JSONL, or TensorBoard events (file or folder)",
          .required = true},
         {.names = "references",
          .type = "REF",
          .to = &given.references,
          .what = "Runs that are known to be right, with the same data in the same order",
          .required = true},
         {.names = "--alpha",
          .type = "P",
          .to = &given.alpha,
          .what = "Chance to fail a clean run, of the whole verdict; default 0.05",
          .least = 1e-6,
          .most = 0.5},
         {.names = "--step",
          .type = "NAME",
          .to = &given.step,
          .what = "The column of steps; default: the usual spellings"},
         {.names = "--loss", .type = "NAME", .to = &given.loss, .what = "The column of the loss"},
         {.names = "--grad-norm",
          .type = "NAME",
          .to = &given.grad_norm,
          .what = "The column of the gradient's norm"},
         {.names = "--page",
          .type = "FILE",
          .to = &shown.pages,
          .what = "Also write a page (.html) or a picture (.svg, .png); may be repeated"},
         {.names = "--figure",
          .type = "COLUMN",
          .to = &shown.figure,
          .what = "What a picture shows; default: what decided, of a pass the loss"},
         {.names = "--dark", .to = &shown.dark, .what = "A .png on a dark ground"},
         {.names = "--column",
          .type = "GLOB",
          .to = &given.more,
          .what = "Further columns to judge; the norms by parameter (grad_norm/...) are"}},
    .call = drift_of,
}};

}  // namespace
}  // namespace parity::cli
