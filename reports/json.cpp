// Records to JSON and back. Both archives visit `fields`, so a new field of a record is read and
// written without a change here; what is listed below are the few places where interface.md's
// layout differs from the record's.
#include "reports/json.hpp"

#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/failure.hpp"
#include "harness/record_fields.hpp"
#include "reports/gradients.hpp"
#include "reports/json_writer.hpp"
#include "reports/quantised.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

using nlohmann::json;

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

struct AnyArchive {
  template <class T>
  void operator()(const char*, T&);
};
template <class T>
concept Record = requires(AnyArchive& a, T& r) {
  fields(a, r);
};

// Keys that say something only where they stand: on a failure, for a parameter, where a picture was
// kept.
bool absent_when_empty(std::string_view key) {
  static const std::set<std::string_view> keys = {
      "error_kind",         "view",       "views",  "expected", "fault",    "parameter",
      "worst_points",       "profiles",   "detail", "alias",    "heatmaps", "ulp_histogram",
      "ulp_histogram_base", "complaints", "scatter"};
  return keys.contains(key);
}

// ---- writing
// ---------------------------------------------------------------------------------------------------------

template <class T>
void put(JsonWriter& out, const T& item);

struct Writing {
  JsonWriter& out;

  template <class T>
  void operator()(std::string_view key, const T& item) {
    if constexpr (requires { item.empty(); }) {
      if (item.empty() && absent_when_empty(key)) return;
      if (item.empty() && (key == "pattern" || key == "device")) return void(out.key(key).null());
    }
    if constexpr (kIsOptional<T>)
      if (!item && absent_when_empty(key)) return;
    if (key == "grid_format") {  // "grid":{"format":...,"share":...}
      out.key("grid").begin_object();
      key = "format";
    } else if (key == "grid_share") {
      key = "share";
    }
    out.key(key);
    put(out, item);
    if (key == "share") out.end_object();
  }
};

template <class T>
void put(JsonWriter& out, const T& item) {
  if constexpr (Record<T>) {
    out.begin_object();
    Writing archive{out};
    fields(archive,
           const_cast<T&>(item));  // the visitor serves readers too; this one changes nothing
    out.end_object();
  } else if constexpr (kIsVector<T>) {
    out.begin_array();
    for (const auto& entry : item) put(out, entry);
    out.end_array();
  } else if constexpr (kIsOptional<T>) {
    if (item)
      put(out, *item);
    else
      out.null();
  } else {
    out.value(item);
  }
}

template <class T>
std::string document(const T& record) {
  JsonWriter out;
  put(out, record);
  return out.text();
}

// ---- reading
// ---------------------------------------------------------------------------------------------------------

void get(const json& from, double& into) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!from.is_string()) return void(into = from.get<double>());
  const auto& word = from.get_ref<const std::string&>();
  if (word == "nan")
    into = std::numeric_limits<double>::quiet_NaN();
  else if (word == "inf")
    into = kInfinity;
  else if (word == "-inf")
    into = -kInfinity;
  else
    throw UsageError(fmt::format("'{}' is no number", word));
}
void get(const json& from, std::string& into) {
  if (from.is_null())
    into.clear();
  else
    into = from.is_string() ? from.get<std::string>() : from.dump();
}
void get(const json& from, bool& into) { into = from.get_ref<const json::boolean_t&>(); }
template <class T>
requires std::is_integral_v<T>
void get(const json& from, T& into) {
  if (!from.is_number_integer()) throw UsageError(fmt::format("{} is no integer", from.dump()));
  into = from.get<T>();
}

template <class T>
void get(const json& from, std::map<std::string, T>& into);
template <class T>
void get(const json& from, std::vector<T>& into);
template <class T>
void get(const json& from, std::optional<T>& into);
template <Record T>
void get(const json& from, T& into);

struct Reading {
  const json& from;

  template <class T>
  void operator()(std::string_view key, T& item) {
    const json* object = &from;
    if (key == "grid_format" || key == "grid_share") {
      const auto grid = from.find("grid");
      if (grid == from.end()) return;
      object = &*grid;
      key = key == "grid_format" ? "format" : "share";
    }
    const auto found = object->find(key);
    if (found == object->end()) return;
    try {
      get(*found, item);
    } catch (const json::exception&) {
      throw UsageError(fmt::format("key '{}' holds {}", key, found->type_name()));
    }
  }
};

template <class T>
void get(const json& from, std::map<std::string, T>& into) {
  into.clear();
  if (from.is_null()) return;
  for (const auto& [name, entry] : from.get_ref<const json::object_t&>()) get(entry, into[name]);
}
template <class T>
void get(const json& from, std::vector<T>& into) {
  into.clear();
  for (const json& entry : from.get_ref<const json::array_t&>()) get(entry, into.emplace_back());
}
template <class T>
void get(const json& from, std::optional<T>& into) {
  if (from.is_null())
    into.reset();
  else
    get(from, into.emplace());
}
template <Record T>
void get(const json& from, T& into) {
  if (!from.is_object())
    throw UsageError(fmt::format("an object is expected, not {}", from.type_name()));
  Reading archive{from};
  fields(archive, into);
}

template <class T>
T read(const json& from) {
  T record;
  get(from, record);
  return record;
}

json parse(std::string_view text) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) throw UsageError("no JSON");
  if (!value.is_object())
    throw UsageError(fmt::format("an object is expected, not {}", value.type_name()));
  return value;
}

}  // namespace

std::string to_json_line(const RunRecord& run) { return document(run); }
// With the table of gradients, where parameters have them: derived, so a reader passes over it.
std::string to_json_line(const CaseRecord& record) {
  if (!has_parameters(record)) return document(record);
  JsonWriter out;
  out.begin_object();
  Writing archive{out};
  fields(archive, const_cast<CaseRecord&>(record));
  out.key("gradients").begin_array();
  for (const GradientRow& row : gradient_rows(record)) {
    const TensorRecord& t = *row.tensor;
    out.begin_object().field("parameter", row.name).field("norm", row.norm);
    out.field("rel_l2", t.rel_l2).field("max_r", t.bound_used).field("cosine", t.cosine);
    out.field("norm_ratio", t.norm_ratio).field("bias_z", t.offset_z).field("gain_z", t.gain_z);
    out.field("share", row.share).field("status", t.status).end_object();
  }
  out.end_array();
  if (const std::string astray = sentence(first_astray(record)); !astray.empty())
    out.field("astray", astray);
  return out.end_object().text();
}
std::string to_json_line(const MutantRecord& record) { return document(record); }
std::string to_json(const TensorRecord& tensor) { return document(tensor); }
std::string to_json_line(const Quantised& q) { return document(q); }

std::string to_json_line(const MutationSummary& mutation) {
  JsonWriter out;
  out.begin_object().field("kind", "mutation");
  Writing archive{out};
  fields(archive, const_cast<MutationSummary&>(mutation));
  return out.end_object().text();
}

std::string to_json_line(const Complaint& complaint) {
  JsonWriter out;
  out.begin_object()
      .field("kind", "complaint")
      .field("text", complaint.text)
      .field("exit", complaint.exit);
  return out.end_object().text();
}

std::string summary_json(const RunFolder& folder, const std::filesystem::path& dir) {
  JsonWriter out;
  out.begin_object().field("schema", 1).key("counts");
  put(out, counts_of(folder.cases));
  out.field("exit", folder.exit).field("wall_ms", folder.wall_ms).key("mutants");
  put(out, folder.mutation);
  out.key("paths").begin_object();
  for (const char* file : {"records.jsonl", "summary.json", "report.html", "junit.xml",
                           "summary.md", "report.sarif", "annotations.txt"})
    out.field(file, (dir / file).string());
  return out.end_object().end_object().text() + "\n";
}

RecordLine parse_line(std::string_view text) {
  const json line = parse(text);
  const auto found = line.find("kind");
  const std::string kind =
      found != line.end() && found->is_string() ? found->get<std::string>() : "";
  if (kind == "run") {
    auto run = read<RunRecord>(line);
    if (run.schema != 1)
      throw UsageError(
          fmt::format("schema {} is not known here; this parity reads schema 1", run.schema));
    return run;
  }
  if (kind == "case") return read<CaseRecord>(line);
  if (kind == "mutant") return read<MutantRecord>(line);
  if (kind == "quantised") return read<Quantised>(line);
  if (kind == "mutation") return read<MutationSummary>(line);
  if (kind == "complaint") {
    Complaint complaint;
    Reading archive{line};
    archive("text", complaint.text);
    archive("exit", complaint.exit);
    return complaint;
  }
  if (kind.empty()) throw UsageError("no key 'kind'");
  return {};
}

SummaryDocument parse_summary(std::string_view text) {
  const json summary = parse(text);
  SummaryDocument document;
  Reading archive{summary};
  archive("exit", document.exit);
  archive("wall_ms", document.wall_ms);
  return document;
}

}  // namespace parity::reports
