// What a quantiser made of one tensor, of the candidate's own results (harness/cli/quantised.cpp
// takes them while the run goes on): a line "quantised" of records.jsonl, and a section of the
// page.
#pragma once

#include "harness/record.hpp"

namespace parity::reports {

// Another definition on the same data: shares of scales and of codes that are not its.
struct OtherChain {
  std::string chain = {};  // "nvfp4_te[tile=16]"
  double scales = 0, codes = 0;
};

struct Quantised {
  std::string kind = "quantised";
  std::string id = {}, check = {};  // of the record
  std::string format = {};          // of the codes
  std::vector<double> values = {};  // that codes stand for, ascending
  std::vector<std::int64_t> counts = {};
  std::int64_t elements = 0;
  std::int64_t not_numbers = 0;  // codes that are NaN or infinite
  std::string scale_format = {};
  std::optional<Heatmap> scales = {};  // cells: log2 of the scale; NaN where it is 0 or no number
  std::int64_t scale_rows = 0, scale_cols = 0;
  // Shares of the elements, and what is left of the signal in dB; absent where neither the case nor
  // its chain dequantises.
  std::optional<double> saturated = {};    // beyond the largest code
  std::optional<double> underflowed = {};  // not zero, and became zero
  std::optional<double> sqnr = {};
  std::optional<Scatter> scatter = {};
  std::vector<OtherChain> others = {};
};

template <class A>
void fields(A& a, OtherChain& r) {
  a("chain", r.chain), a("scales", r.scales), a("codes", r.codes);
}
template <class A>
void fields(A& a, Quantised& r) {
  a("kind", r.kind), a("id", r.id), a("check", r.check), a("format", r.format);
  a("values", r.values), a("counts", r.counts), a("elements", r.elements);
  a("not_numbers", r.not_numbers), a("scale_format", r.scale_format), a("scales", r.scales);
  a("scale_rows", r.scale_rows), a("scale_cols", r.scale_cols), a("saturated", r.saturated);
  a("underflowed", r.underflowed), a("sqnr", r.sqnr), a("scatter", r.scatter),
      a("others", r.others);
}

std::string to_json_line(const Quantised&);
std::string html_quantised(const Quantised&);  // heading, sentence, pictures, table of chains

}  // namespace parity::reports
