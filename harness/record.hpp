// What is kept of a case and of a run. One visitor (fields) names every field once: the pipe
// between processes, the JSON writer and the JSON reader all use it, so that a new field is one
// line.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case.hpp"

namespace parity {

enum class Status : std::uint8_t { Pass, Fail, Unproven, Unsupported, Error, Waived };
std::string_view name(Status);
Status parse_status(std::string_view);

// Ordered by severity: the first violated one is `view` of a record.
enum class View : std::uint8_t {
  Accounting,
  Finiteness,
  Exact,
  Discrete,
  Determinism,
  Bound,
  Grid,
  Bias,
  Slice,
  Floor,
  Ratio,
  None
};
std::string_view name(View);
View parse_view(std::string_view);

// One view of one tensor: passes only if value <= limit.
struct ViewResult {
  std::string view = {};
  double value = 0;
  double limit = 0;
  bool ok = false;
  std::string detail = {};  // where, and in which terms
};

struct WorstPoint {
  std::vector<std::int64_t> index = {};
  std::string letters = {};
  double truth = 0;
  std::optional<double> base = {};  // absent where equality is asked for: there is no base
  double candidate = 0;
  double ulp = 0;         // of the output format
  double bound_used = 0;  // e / allowed
};

// Shares of the error by slice along one axis, for pattern sentences and heatmaps.
struct AxisProfile {
  std::string axis = {};                // "t", "h", "t%16"
  std::vector<double> bound_used = {};  // max of e / allowed per index (binned to at most 256 bins)
  std::vector<double> rms = {};         // rms error per index, in units of the base's rms error
  double chi_square = 0, chi_limit = 0;  // structure: reported, gates only where a case set asks
};

struct Heatmap {
  std::string rows = {}, cols = {};  // letters, e.g. "t" and "h"
  std::int64_t height = 0, width = 0;
  std::vector<double> cells = {};  // max bound_used, row-major, at most 64 x 64 bins
};

// Error against magnitude, binned: cell (log2 |truth|, log2 error), with the bound of the bin.
struct Scatter {
  std::vector<double> log2_magnitude = {}, log2_error = {}, log2_allowed = {}, count = {};
};

struct TensorRecord {
  std::string name = {}, role = {}, parameter = {}, dtype = {};
  std::vector<std::int64_t> shape = {};
  std::vector<std::string> axes = {};
  std::int64_t elements = 0;
  double max_abs = 0, max_rel = 0, rel_l2 = 0, cosine = 0, max_ulp = 0, mean_ulp = 0,
         norm_ratio = 0, truth_rms = 0;
  std::int64_t mismatches = 0;  // elements over their bound
  std::int64_t open = 0;        // elements that the definition leaves open: not compared
  std::int64_t differing =
      0;  // elements whose bits differ from the truth rounded to the storage format
  double offset_z = 0, gain = 0, gain_base = 0, gain_z = 0;
  std::string grid_format = {};
  double grid_share = 0;
  double zero_fraction = 0;
  double bound_used = 0, base_bound_used = 0;  // max r of the candidate and of the base
  double rel_l2_base = 0, floor = 0;           // rel L2 of the base, and its noise floor
  double repeat_spread = 0;  // rel L2 between two launches, over sqrt 2: noise that no base has
  std::string bound_kind = {}, bound_why = {};
  double bound_that_would_pass = 0;              // factor on the bound
  double detectable = 0;                         // smallest relative change that would have failed
  std::map<std::string, double> quantiles = {};  // p50, p90, p99, p999 of bound_used
  std::optional<WorstPoint> worst = {};
  std::vector<WorstPoint> worst_points = {};  // the ten worst, of a failing tensor
  std::string pattern = {};                   // a sentence, or empty
  std::vector<ViewResult> views = {};
  std::vector<std::int64_t> ulp_histogram = {},
                            ulp_histogram_base = {};  // log2 ulp, both signs, centre = equal
  std::vector<AxisProfile> profiles = {};
  std::vector<Heatmap> heatmaps = {};
  std::optional<Scatter> scatter = {};
  std::string unproven =
      {};  // why this tensor shows nothing: bound refuted, void, larger than the output; else empty
  std::string status = {}, view = {};
};

struct Accounting {
  std::int64_t produced = 0, compared = 0, unwritten = 0;
  bool inputs_unchanged = true, canaries_whole = true, saved_unchanged = true;
  std::vector<std::string> complaints = {};
};

struct Times {
  double generate = 0, reference = 0, base = 0, kernel = 0, compare = 0;  // milliseconds
};

struct CaseRecord {
  std::string kind = "case";
  std::string id = {}, op = {}, kernel = {}, dtype = {}, fill = {};
  std::map<std::string, std::int64_t> sizes = {};
  std::string sizes_text = {};
  std::map<std::string, std::string> options = {};
  std::optional<std::uint64_t> seed = {};
  std::string direction = {}, check = {}, lane = {};
  std::string status = {}, reason = {}, error_kind = {};
  std::string view = {};
  std::vector<std::string> views = {};
  std::string expected = {};  // "fail" where the candidate is known to be damaged
  std::string fault = {};     // of a mutant
  bool hw_verified = false;
  // Where a GPU kernel ran: "name", "sm", "driver", "kernels" (the device functions launched).
  std::map<std::string, std::string> device = {};
  std::string contract = {};
  std::vector<TensorRecord> tensors = {};
  Accounting accounting = {};
  Times time_ms = {};
  std::string repro = {};
};

struct MutantRecord {
  std::string kind = "mutant";
  std::string id = {}, op = {}, fault = {}, alias = {}, what = {}, status = {}, case_id = {},
              view = {}, reason = {};
  double margin = 0;  // observed metric over its limit
};

struct Counts {
  std::int64_t pass = 0, fail = 0, unproven = 0, unsupported = 0, error = 0, waived = 0,
               expected_fail = 0;
};

struct MutationSummary {
  std::int64_t killed = 0, survived = 0, unsupported = 0, false_alarms = 0, clean = 0;
};

struct RunRecord {
  int schema = 1;
  std::string kind = "run";
  std::string started = {}, command = {}, commit = {}, lane = {};
  std::map<std::string, std::string> host = {}, device = {}, compiler = {}, flags = {},
                                     libraries = {};
  std::optional<std::uint64_t> seed = {};
};

// Exit code by the rules of tolerance.md §7: of several, 2 before 5 before 1 before 3 before 4
// before 0.
int worse_exit(int a, int b);

}  // namespace parity
