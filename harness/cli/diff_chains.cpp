// parity diff-chains: which quantiser chains agree, where the first step differs, how often, and
// what it does to a product.
#include <cmath>
#include <filesystem>
#include <fmt/format.h>

#include "golden/io/tensor_file.hpp"
#include "harness/cli/chain_table.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/failure.hpp"
#include "harness/walk.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

// What the command line gave.
struct Given {
  std::vector<std::string> data = {};    // a file, or the id of a case
  std::vector<std::string> chains = {};  // compared
  std::string against = {};              // the chain compared with
  std::string tensor = {};               // of the file
  int draws = 8;
  std::int64_t rows = 64, columns = 1024;  // of a draw
  bool forced = false;                     // every mantissa of the amax
  bool pairs = false;                      // every pair of amaxes
  bool special = false;                    // the table of special values
} given;

constexpr double kMost = 1 << 20;  // draws, rows, columns

using reports::JsonWriter;
using reports::number;

constexpr std::int64_t kOtherRows = 64;  // of w, the other operand of the product

std::vector<ChainName> chains_of() {
  std::vector<ChainName> chains = {parse_chain(given.against.empty() ? "nvfp4_te" : given.against)};
  std::vector<ChainName> others;
  for (const std::string& text : given.chains) others.push_back(parse_chain(text));
  if (others.empty()) others = traced_chains();
  for (ChainName& name : others)
    if (name.text() != chains.front().text()) chains.push_back(std::move(name));
  return chains;
}

struct Data {
  std::string what = {};
  Tensor x = {};
};

// "f32 or bf16, rows of K".
Data checked(std::string what, Tensor x) {
  if (x.spec.dims.empty() || x.elements() == 0)
    throw UsageError(fmt::format("{}: a tensor of rows is needed", what));
  if (x.spec.dtype != Dtype::F32 && x.spec.dtype != Dtype::BF16)
    throw UsageError(fmt::format("{}: {}; chains quantise f32 and bf16", what, name(x.spec.dtype)));
  return {std::move(what), std::move(x)};
}

Data from_file(const std::string& path, const std::string& wanted) {
  const io::TensorFile file = io::open(path);
  std::string names;
  for (const io::TensorInfo& info : file.tensors()) names += " " + info.name;
  if (!wanted.empty()) {
    const std::size_t* at = file.find(wanted);
    if (at == nullptr)
      throw UsageError(fmt::format("{}: no tensor '{}' (there are:{})", path, wanted, names));
    return checked(path + ": " + wanted, file.read(*at));
  }
  if (file.tensors().size() != 1)
    throw UsageError(fmt::format("{}: --tensor says which (there are:{})", path, names));
  return checked(path + ": " + file.tensors().front().name, file.read(0));
}

// x of a case, as it is generated.
Data from_case(const std::string& id) {
  const ParsedId parsed = parse_id(id);
  const OpDef& op = registry().op_or_throw(parsed.problem.op);
  for (const Case& c : expand(registry(), Lane::Long)) {
    if (c.id() != parsed.problem.id()) continue;
    const Tensors inputs = generate(c, op, 1);
    if (const Tensor* x = inputs.find("x")) return checked(id, *x);
    throw UsageError(fmt::format("case '{}' has no input x", id));
  }
  throw UsageError(fmt::format("no case '{}'", id));
}

Data data_of() {
  const std::string& name = given.data.front();
  if (std::filesystem::exists(name)) return from_file(name, given.tensor);
  if (name.find('/') != std::string::npos && name.find("quantize") == 0) return from_case(name);
  return from_file(name, given.tensor);  // says what is wrong with it
}

std::string percent(double rate) { return rate == 0 ? "0" : fmt::format("{:.2g}", rate); }

std::string decibels(double value) {
  return std::isinf(value) ? "exact" : fmt::format("{:.2f}", value);
}

std::string groups_text(const std::vector<std::vector<std::string>>& groups) {
  std::string text = "\nequal codes and scales:\n";
  for (const std::vector<std::string>& group : groups)
    text += fmt::format("  {}\n", fmt::join(group, ", "));
  return text;
}

// ---- given data
// -------------------------------------------------------------------------------------------------

struct Line {
  ChainTrace trace = {};
  ChainDifference difference = {};
  double sqnr_x = 0, sqnr_y = 0;
};

std::vector<Line> lines_of(const std::vector<ChainName>& chains, const Tensor& x) {
  std::vector<Line> lines;
  const Tensor w = normal_matrix(x.spec.dtype, kOtherRows, x.spec.dims.back().extent, 0);
  for (const ChainName& name : chains) {
    Line line{.trace = trace_of(name, x)};
    if (line.trace.refused.empty()) {
      if (!lines.empty() && lines.front().trace.refused.empty())
        line.difference = difference(lines.front().trace, line.trace);
      line.sqnr_x = sqnr(x.widened(), line.trace.steps.find("dequant_f32")->value);
      line.sqnr_y = gemm_sqnr(line.trace, x, trace_of(name, w), w);
    }
    lines.push_back(std::move(line));
  }
  if (!lines.front().trace.refused.empty())
    throw UsageError(fmt::format("{} does not take the data: {}", chains.front().text(),
                                 lines.front().trace.refused));
  return lines;
}

std::string first_text(const ChainDifference& d) {
  const int first = d.first();
  if (first < 0) return "-";
  const StepDifference& step = d.steps[static_cast<std::size_t>(first)];
  return fmt::format("{} at {}", kSteps[static_cast<std::size_t>(first)], step.first);
}

std::string data_text(const Data& data, const std::vector<Line>& lines) {
  std::string text =
      fmt::format("{} ({}, {} elements), against {}\n\n", data.what, name(data.x.spec.dtype),
                  data.x.elements(), lines.front().trace.name.text());
  text += fmt::format("{:<36} {:>9} {:>9} {:>9} {:>9}  {:<24} {:>8} {:>8}\n", "chain", "scales",
                      "factors", "codes", "dequant", "first difference", "SQNR x", "SQNR y");
  for (const Line& line : lines) {
    const std::string name = line.trace.name.text();
    if (!line.trace.refused.empty()) {
      text += fmt::format("{:<36} refuses: {}\n", name, line.trace.refused);
      continue;
    }
    const auto& steps = line.difference.steps;
    text += fmt::format("{:<36} {:>9} {:>9} {:>9} {:>9}  {:<24} {:>8} {:>8}\n", name,
                        percent(steps[1].rate()),
                        steps[2].comparable ? percent(steps[2].rate()) : "1/x",
                        percent(steps[3].rate()), percent(steps[4].rate()),
                        first_text(line.difference), decibels(line.sqnr_x), decibels(line.sqnr_y));
  }
  return text +
         "\nscales, factors, codes, dequant: share that differs bit for bit; SQNR in dB of the\n"
         "dequantised x and of y = x w^T with both operands quantised (w: N(0,1), 64 rows)\n";
}

std::string data_json(const Data& data, const std::vector<Line>& lines) {
  JsonWriter out;
  out.begin_object()
      .field("schema", 1)
      .field("data", data.what)
      .field("dtype", name(data.x.spec.dtype))
      .field("against", lines.front().trace.name.text())
      .key("chains")
      .begin_array();
  for (const Line& line : lines) {
    out.begin_object().field("chain", line.trace.name.text());
    if (!line.trace.refused.empty()) {
      out.field("refused", line.trace.refused).end_object();
      continue;
    }
    const int first = line.difference.first();
    out.field("first_difference",
              first < 0 ? std::optional<std::string>{}
                        : std::optional<std::string>(kSteps[static_cast<std::size_t>(first)]))
        .field("sqnr_x", line.sqnr_x)
        .field("sqnr_y", line.sqnr_y)
        .key("steps")
        .begin_array();
    for (std::size_t i = 0; i < kSteps.size(); ++i) {
      const StepDifference& step = line.difference.steps[i];
      out.begin_object()
          .field("step", kSteps[i])
          .field("elements", step.elements)
          .field("differing", step.differing)
          .field("first", step.first)
          .field("largest", step.largest)
          .field("comparable", step.comparable)
          .end_object();
    }
    out.end_array().end_object();
  }
  out.end_array().end_object();
  return out.text() + "\n";
}

// ---- no data: draws, pairs
// -------------------------------------------------------------------------------------------------

std::string table_text(const DrawRequest& request, const ChainTable& table) {
  std::string text = fmt::format(
      "{} of {}x{} {} N(0,1){}, against {}\n\n{:<36} {:>10} {:>6} {:>12} {:>9} {:>5} {:>7} "
      "{:>7}\n",
      reports::count_of(table.rates.front().draws, "draw"), request.rows, request.columns,
      name(request.dtype), request.forced ? " with every amax of [4, 8)" : "",
      request.chains.front().text(), "chain", "scales max", "in", "codes median", "codes max",
      "step", "SQNR x", "SQNR y");
  for (const ChainRates& r : table.rates) {
    if (!r.refused.empty()) {
      text += fmt::format("{:<36} refuses: {}\n", r.name.text(), r.refused);
      continue;
    }
    text +=
        fmt::format("{:<36} {:>10} {:>6} {:>12} {:>9} {:>5} {:>7} {:>7}\n", r.name.text(),
                    percent(r.scales_max), r.scales_in, percent(r.codes_median),
                    percent(r.codes_max), r.largest_code, decibels(r.sqnr_x), decibels(r.sqnr_y));
  }
  return text + groups_text(table.agreeing) +
         "\nscales max: largest share of scale bytes that differ; in: draws where one does; step: "
         "largest\ncode step under an equal scale; SQNR in dB of x and of y = x w^T, both operands "
         "quantised\n";
}

std::string table_json(const DrawRequest& request, const ChainTable& table) {
  JsonWriter out;
  out.begin_object()
      .field("schema", 1)
      .field("against", request.chains.front().text())
      .field("dtype", name(request.dtype))
      .field("rows", request.rows)
      .field("columns", request.columns)
      .field("forced", request.forced)
      .field("equal", table.agreeing)
      .key("chains")
      .begin_array();
  for (const ChainRates& r : table.rates) {
    out.begin_object().field("chain", r.name.text());
    if (!r.refused.empty()) {
      out.field("refused", r.refused).end_object();
      continue;
    }
    out.field("draws", r.draws)
        .field("draws_with_scales", r.scales_in)
        .field("scales_max", r.scales_max)
        .field("codes_median", r.codes_median)
        .field("codes_max", r.codes_max)
        .field("largest_code_step", r.largest_code)
        .field("sqnr_x", r.sqnr_x)
        .field("sqnr_y", r.sqnr_y)
        .end_object();
  }
  out.end_array().end_object();
  return out.text() + "\n";
}

std::string pairs_text(const std::vector<PairCount>& counts) {
  std::string text = fmt::format(
      "every bf16 pair of a tensor's and a block's amax with a normal scale, against {}\n\n"
      "{:<36} {:>8} {:>10} {:>10}\n",
      counts.front().name.text(), "chain", "pairs", "mantissas", "of pairs");
  for (const PairCount& count : counts)
    text += fmt::format("{:<36} {:>8} {:>10} {:>10}\n", count.name.text(), count.pairs,
                        count.mantissas, count.of);
  return text;
}

std::string pairs_json(const std::vector<PairCount>& counts) {
  JsonWriter out;
  out.begin_object().field("schema", 1).key("pairs").begin_array();
  for (const PairCount& count : counts)
    out.begin_object()
        .field("chain", count.name.text())
        .field("pairs", count.pairs)
        .field("mantissas", count.mantissas)
        .field("of", count.of)
        .end_object();
  out.end_array().end_object();
  return out.text() + "\n";
}

int diff_chains(const Arguments& args) {
  if (given.special) {
    print(special_values_table());
    return 0;
  }
  const std::vector<ChainName> chains = chains_of();
  if (given.pairs) {
    const std::vector<PairCount> counts = pairs_of(chains);
    print(args.json ? pairs_json(counts) : pairs_text(counts));
    return 0;
  }
  if (!given.data.empty()) {
    const Data data = data_of();
    const std::vector<Line> lines = lines_of(chains, data.x);
    print(args.json ? data_json(data, lines) : data_text(data, lines));
    return 0;
  }
  const DrawRequest request{.chains = chains,
                            .rows = given.rows,
                            .columns = given.columns,
                            .draws = given.draws,
                            .forced = given.forced};
  const ChainTable table = table_of(request);
  print(args.json ? table_json(request, table) : table_text(request, table));
  return 0;
}

const RegisterVerb verb{{
    .path = "diff-chains",
    .what =
        "Quantiser chains side by side: who agrees, where the first step differs, how often, at "
        "what cost",
    .examples =
        "  parity diff-chains                             who agrees with whom, on draws of "
        "N(0,1)\n"
        "  parity diff-chains --draws 150 --rows 512      the long table\n"
        "  parity diff-chains --forced                    every mantissa of the tensor's amax\n"
        "  parity diff-chains weights.safetensors --tensor w --against nvfp4_modelopt\n"
        "  parity diff-chains --chain nvfp4_trtllm --pairs   which pairs of amaxes part them",
    .options =
        {{.names = "data",
          .type = "FILE|ID",
          .to = &given.data,
          .what = "A file of tensors, or the id of a case: its x; none: draws of N(0,1)",
          .most_words = 1},
         {.names = "--tensor",
          .type = "NAME",
          .to = &given.tensor,
          .what = "Which tensor of the file"},
         {.names = "--chain",
          .type = "CHAIN",
          .to = &given.chains,
          .what = "Only this chain, with options, as 'nvfp4_te_4over6[err=mse]'; repeatable"},
         {.names = "--against",
          .type = "CHAIN",
          .to = &given.against,
          .what = "What they are compared with; default: nvfp4_te"},
         {.names = "--draws",
          .type = "N",
          .to = &given.draws,
          .what = "Draws, where no data is given",
          .least = 1,
          .most = kMost},
         {.names = "--rows",
          .type = "M",
          .to = &given.rows,
          .what = "Rows of a draw",
          .least = 1,
          .most = kMost},
         {.names = "--columns",
          .type = "K",
          .to = &given.columns,
          .what = "Columns of a draw",
          .least = 1,
          .most = kMost},
         {.names = "--forced",
          .to = &given.forced,
          .what = "128 draws whose amaxes take every bf16 mantissa of [4, 8)"},
         {.names = "--pairs",
          .to = &given.pairs,
          .what = "Every bf16 pair of a tensor's and a block's amax: which give other scale bytes"},
         {.names = "--special",
          .to = &given.special,
          .what = "What chains make of NaN, infinities, -0, zeros and underflow, as Markdown"}},
    .call = diff_chains,
}};

}  // namespace
}  // namespace parity::cli
