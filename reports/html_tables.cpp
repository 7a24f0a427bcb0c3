// Tables over the whole run: the matrix, the kill table, the ledger of bounds.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "reports/page.hpp"
#include "reports/svg.hpp"
#include "reports/words.hpp"

namespace parity::reports::page {
namespace {

bool failed_as_expected(const CaseRecord& record) {
  return record.status == "fail" && record.expected == "fail";
}

std::string square(const CaseRecord& record) {
  std::string css, mark;
  if (record.status == "pass")
    css = fmt::format("s{}", std::min(svg::step_of(max_bound_used(record)), svg::kOver - 1));
  else if (failed_as_expected(record))
    css = "x-expected", mark = "×";
  else
    css = "x-" + record.status, mark = record.status == "fail"          ? "×"
                                       : record.status == "unsupported" ? ""
                                       : record.status == "error"       ? "!"
                                                                        : "?";
  // The script makes the tip of id, status and share: here it would be half of the page.
  const std::string share =
      record.tensors.empty() ? "" : fmt::format(R"( data-u="{}")", number(max_bound_used(record)));
  return fmt::format(R"(<a class="{}" href="{}"{}>{}</a>)", escaped(css), link_to(record), share,
                     mark);
}

std::string legend() {
  std::string text = R"(<div class="legend"><span>share of the bound used:</span>)";
  for (int step = 0; step < svg::kOver; ++step)
    text += fmt::format(R"(<span><i class="s{}"></i>{}</span>)", step, svg::step_words(step));
  for (const auto& [css, mark, words] :
       {std::tuple("x-fail", "×", "fail"), std::tuple("x-expected", "×", "fails as it must"),
        std::tuple("x-error", "!", "error"), std::tuple("x-unproven", "?", "unproven"),
        std::tuple("x-unsupported", "", "unsupported")})
    text += fmt::format(R"(<span><span class="sq"><a class="{}">{}</a></span>{}</span>)", css, mark,
                        words);
  return text + "</div>";
}

struct Column {
  std::string kernel = {}, dtype = {};
  auto operator<=>(const Column&) const = default;
};

// "kda_h200" of "kda/kda_h200:case/..."; empty for a case that was generated.
std::string file_of(const CaseRecord& record) {
  if (record.check != "golden" && record.check != "recording") return "";
  const std::size_t slash = record.id.find('/'), colon = record.id.find(':');
  return slash < colon && colon != std::string::npos
             ? record.id.substr(slash + 1, colon - slash - 1)
             : "stored";
}

// Cases of files: their shapes differ from file to file, so a line holds a file and a candidate.
std::string stored_matrix(const std::vector<const CaseRecord*>& records) {
  std::map<std::vector<std::string>, std::string> rows;
  for (const CaseRecord* record : records)
    if (const std::string file = file_of(*record); !file.empty())
      rows[{file, record->kernel, record->dtype}] += square(*record);
  if (rows.empty()) return "";
  std::string text =
      "<table class=\"matrix\"><tr><th>file</th><th>candidate</th><th>dtype</th><th></th></tr>";
  for (const auto& [key, squares] : rows)
    text += fmt::format(
        "<tr><td class=\"id\">{}</td><td>{}</td><td>{}</td>"
        "<td><div class=\"sq wide\">{}</div></td></tr>",
        escaped(key[0]), escaped(key[1]), escaped(key[2]), squares);
  return text + "</table>";
}

std::string op_matrix(const std::string& op, const std::vector<const CaseRecord*>& records) {
  std::map<std::string, std::map<Column, std::string>> rows;
  std::map<Column, int> columns;
  std::vector<std::string> order;
  for (const CaseRecord* record : records) {
    if (!file_of(*record).empty()) continue;
    const std::string shape = record->sizes_text.empty() ? "any" : record->sizes_text;
    const Column column{record->kernel, record->dtype};
    if (!rows.contains(shape)) order.push_back(shape);
    rows[shape][column] += square(*record);
    ++columns[column];
  }
  std::string text = "<table class=\"matrix\"><tr><th>shape</th>";
  for (const auto& [column, n] : columns)
    text += fmt::format(
        "<th class=\"k\">{}<br>{}</th>",
        escaped(column.kernel.starts_with(op + ".") ? column.kernel.substr(op.size() + 1)
                                                    : column.kernel),
        escaped(column.dtype));
  text += "</tr>";
  for (const std::string& shape : order) {
    text += fmt::format("<tr><td class=\"id\">{}</td>", escaped(shape));
    for (const auto& [column, n] : columns) {
      const auto found = rows[shape].find(column);
      text += found == rows[shape].end()
                  ? "<td></td>"
                  : fmt::format("<td><div class=\"sq\">{}</div></td>", found->second);
    }
    text += "</tr>";
  }
  return order.empty() ? "" : text + "</table>";
}

}  // namespace

std::string matrix(const RunFolder& folder) {
  std::map<std::string, std::vector<const CaseRecord*>> ops;
  for (const CaseRecord& record : folder.cases) ops[record.op].push_back(&record);
  std::string text =
      R"(<h2 id="matrix">Matrix</h2><p class="soft">One square a case (its fills, options, directions and checks side by side), coloured by how much of )"
      R"(its bound the worst element used. Follow it to the case.</p>)";
  text += legend() + "<div class=\"card\">";
  if (ops.empty()) text += "<p>Nothing was judged.</p>";
  for (const auto& [op, records] : ops)
    text +=
        fmt::format("<h3>{}</h3>", escaped(op)) + op_matrix(op, records) + stored_matrix(records);
  return text + "</div>";
}

std::string kill_table(const RunFolder& folder) {
  if (!folder.mutation) return "";
  const MutationSummary& m = *folder.mutation;
  std::vector<const MutantRecord*> order;
  for (const MutantRecord& mutant : folder.mutants) order.push_back(&mutant);
  std::ranges::stable_sort(order, {}, [](const MutantRecord* mutant) {
    return mutant->status == "survived" ? 0 : mutant->status == "killed" ? 1 : 2;
  });
  Table table({"status", "@mutant", "what is wrong in it", "caught by", "#value / limit",
               "@case, or reason"});
  for (const MutantRecord* mutant : order) {
    const bool killed = mutant->status == "killed";
    table.row({badge(mutant->status),
               escaped(mutant->alias.empty() ? mutant->id : mutant->id + " = " + mutant->alias),
               escaped(mutant->what), escaped(mutant->view), killed ? number(mutant->margin) : "",
               escaped(killed ? mutant->case_id : mutant->reason)});
  }
  return fmt::format(
      R"(<h2 id="kill">Kill table</h2><p class="soft">Each line is a fault of the catalogue, switched on in a kernel or in the base and )"
      R"(judged by the same cases and bounds. {} killed, {} survived, {} unsupported; {} on {} clean variants.</p><div class="card" id="mutants">{}</div>)",
      m.killed, m.survived, m.unsupported, count_of(m.false_alarms, "false alarm"), m.clean,
      table.html());
}

std::string ledger(const RunFolder& folder) {
  struct Line {
    std::int64_t judged = 0, violated = 0;
    double used = 0, base = 0;  // widest use by a candidate that passes, and by the base
    const CaseRecord* widest = nullptr;
  };
  std::map<std::vector<std::string>, Line> lines;
  for (const CaseRecord& record : folder.cases)
    for (const TensorRecord& tensor : record.tensors) {
      if (tensor.bound_kind.empty() || failed_as_expected(record)) continue;
      Line& line =
          lines[{record.op, tensor.name, tensor.dtype, tensor.bound_kind, tensor.bound_why}];
      ++line.judged;
      line.base = std::max(line.base, tensor.base_bound_used);
      const bool holds = telling_view(tensor) == nullptr;
      line.violated += !holds;
      if (!line.widest || (holds && tensor.bound_used >= line.used)) line.widest = &record;
      if (holds) line.used = std::max(line.used, tensor.bound_used);
    }
  std::map<std::string, std::size_t>
      reasons;  // a derivation serves many tensors: told once, numbered
  for (const auto& [key, line] : lines) reasons.emplace(key[4], reasons.size() + 1);
  Table table({"op", "$tensor", "dtype", "kind", "#derivation", "#judged", "#violated",
               "widest use", "#base", "#headroom"});
  for (const auto& [key, line] : lines)
    table.row({escaped(key[0]),
               fmt::format("<a href=\"{}\">{}</a>", link_to(*line.widest), escaped(key[1])),
               escaped(key[2]), escaped(key[3]),
               fmt::format("<a href=\"#why-{0}\">{0}</a>", reasons[key[4]]),
               std::to_string(line.judged),
               line.violated ? fmt::format("<span class=\"fail\">{}</span>", line.violated) : "0",
               bar(line.used), number(line.base), headroom(line.used)});
  std::vector<std::string_view> by_number(reasons.size());
  for (const auto& [why, number] : reasons) by_number[number - 1] = why;
  std::string derivations;
  for (std::size_t i = 0; i < by_number.size(); ++i)
    derivations +=
        fmt::format("<dt id=\"why-{0}\">{0}</dt><dd>{1}</dd>", i + 1, escaped(by_number[i]));
  return fmt::format(
      R"(<h2 id="bounds">Ledger of bounds</h2><p class="soft">Every bound that was applied, where it comes from, and how much of it was )"
      R"(used: by the worst candidate that passes, and by the base (the reference at the kernel's own contract).</p>)"
      R"(<div class="card" id="ledger">{}<h3>Derivations</h3><dl class="why">{}</dl></div>)",
      table.html(), derivations);
}

}  // namespace parity::reports::page
