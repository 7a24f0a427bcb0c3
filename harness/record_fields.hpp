// Names every field of a record once. An archive is anything with operator()(const char* name, T&
// value) for the types used here; `fields(archive, record)` visits them in a fixed order. Names are
// the JSON keys of interface.md §3.
#pragma once

#include "harness/record.hpp"

namespace parity {

template <class A>
void fields(A& a, ViewResult& r) {
  a("view", r.view), a("value", r.value), a("limit", r.limit), a("ok", r.ok), a("detail", r.detail);
}
template <class A>
void fields(A& a, WorstPoint& r) {
  a("index", r.index), a("letters", r.letters), a("truth", r.truth), a("base", r.base);
  a("candidate", r.candidate), a("ulp", r.ulp), a("bound_used", r.bound_used);
}
template <class A>
void fields(A& a, AxisProfile& r) {
  a("axis", r.axis), a("bound_used", r.bound_used), a("rms", r.rms), a("chi_square", r.chi_square);
  a("chi_limit", r.chi_limit);
}
template <class A>
void fields(A& a, Heatmap& r) {
  a("rows", r.rows), a("cols", r.cols), a("height", r.height), a("width", r.width),
      a("cells", r.cells);
}
template <class A>
void fields(A& a, Scatter& r) {
  a("log2_magnitude", r.log2_magnitude), a("log2_error", r.log2_error),
      a("log2_allowed", r.log2_allowed);
  a("count", r.count);
}
template <class A>
void fields(A& a, TensorRecord& r) {
  a("name", r.name), a("role", r.role), a("parameter", r.parameter), a("dtype", r.dtype),
      a("shape", r.shape);
  a("axes", r.axes), a("elements", r.elements), a("max_abs", r.max_abs), a("max_rel", r.max_rel);
  a("rel_l2", r.rel_l2), a("cosine", r.cosine), a("max_ulp", r.max_ulp), a("mean_ulp", r.mean_ulp);
  a("norm_ratio", r.norm_ratio), a("truth_rms", r.truth_rms), a("mismatches", r.mismatches);
  a("differing", r.differing), a("offset_z", r.offset_z), a("gain", r.gain),
      a("gain_base", r.gain_base);
  a("gain_z", r.gain_z), a("grid_format", r.grid_format), a("grid_share", r.grid_share);
  a("zero_fraction", r.zero_fraction), a("bound_used", r.bound_used),
      a("base_bound_used", r.base_bound_used);
  a("rel_l2_base", r.rel_l2_base), a("floor", r.floor), a("repeat_spread", r.repeat_spread),
      a("bound_kind", r.bound_kind), a("bound_why", r.bound_why);
  a("bound_that_would_pass", r.bound_that_would_pass), a("detectable", r.detectable),
      a("quantiles", r.quantiles);
  a("worst", r.worst), a("worst_points", r.worst_points), a("pattern", r.pattern),
      a("views", r.views);
  a("ulp_histogram", r.ulp_histogram), a("ulp_histogram_base", r.ulp_histogram_base),
      a("profiles", r.profiles);
  a("heatmaps", r.heatmaps), a("scatter", r.scatter), a("unproven", r.unproven), a("open", r.open);
  a("status", r.status), a("view", r.view);
}
template <class A>
void fields(A& a, Accounting& r) {
  a("produced", r.produced), a("compared", r.compared), a("unwritten", r.unwritten);
  a("inputs_unchanged", r.inputs_unchanged), a("canaries_whole", r.canaries_whole);
  a("saved_unchanged", r.saved_unchanged), a("complaints", r.complaints);
}
template <class A>
void fields(A& a, Times& r) {
  a("generate", r.generate), a("reference", r.reference), a("base", r.base), a("kernel", r.kernel);
  a("compare", r.compare);
}
template <class A>
void fields(A& a, CaseRecord& r) {
  a("kind", r.kind), a("id", r.id), a("op", r.op), a("kernel", r.kernel), a("dtype", r.dtype),
      a("fill", r.fill);
  a("sizes", r.sizes), a("sizes_text", r.sizes_text), a("options", r.options), a("seed", r.seed);
  a("direction", r.direction), a("check", r.check), a("lane", r.lane), a("status", r.status),
      a("reason", r.reason);
  a("error_kind", r.error_kind), a("view", r.view), a("views", r.views), a("expected", r.expected);
  a("fault", r.fault), a("hw_verified", r.hw_verified), a("device", r.device),
      a("contract", r.contract), a("tensors", r.tensors);
  a("accounting", r.accounting), a("time_ms", r.time_ms), a("repro", r.repro);
}
template <class A>
void fields(A& a, MutantRecord& r) {
  a("kind", r.kind), a("id", r.id), a("op", r.op), a("fault", r.fault), a("alias", r.alias),
      a("what", r.what);
  a("status", r.status), a("case", r.case_id), a("view", r.view), a("margin", r.margin),
      a("reason", r.reason);
}
template <class A>
void fields(A& a, Counts& r) {
  a("pass", r.pass), a("fail", r.fail), a("unproven", r.unproven), a("unsupported", r.unsupported);
  a("error", r.error), a("waived", r.waived), a("expected_fail", r.expected_fail);
}
template <class A>
void fields(A& a, MutationSummary& r) {
  a("killed", r.killed), a("survived", r.survived), a("unsupported", r.unsupported);
  a("false_alarms", r.false_alarms), a("clean", r.clean);
}
template <class A>
void fields(A& a, RunRecord& r) {
  a("schema", r.schema), a("kind", r.kind), a("started", r.started), a("command", r.command),
      a("commit", r.commit);
  a("host", r.host), a("device", r.device), a("compiler", r.compiler), a("flags", r.flags);
  a("libraries", r.libraries), a("lane", r.lane), a("seed", r.seed);
}

}  // namespace parity
