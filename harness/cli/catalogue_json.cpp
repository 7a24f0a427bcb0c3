// The catalogue as registry.json, written by a build step and read by `list` and `show`.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/cli/catalogue.hpp"
#include "harness/failure.hpp"
#include "reports/json_writer.hpp"

namespace parity::cli {
namespace {

using nlohmann::json;

// One visitor for both ways, as for records.
template <class A>
void fields(A& a, FaultInfo& f) {
  a("id", f.id), a("fault", f.fault), a("what", f.what), a("unsupported", f.unsupported);
}
template <class A>
void fields(A& a, VariantInfo& v) {
  a("options", v.options), a("lane", v.lane);
}
template <class A>
void fields(A& a, KernelInfo& k) {
  a("name", k.name), a("op", k.op), a("what", k.what), a("file", k.file), a("needs", k.needs),
      a("environment", k.environment);
  a("contract", k.contract), a("dtypes", k.dtypes), a("directions", k.directions),
      a("variants", k.variants), a("takes", k.takes);
  a("refuses", k.refuses), a("faults", k.faults);
  a("taken", k.taken), a("exact", k.exact);
}
template <class A>
void fields(A& a, OpInfo& o) {
  a("name", o.name), a("what", o.what), a("kind", o.kind), a("directions", o.directions),
      a("sources", o.sources), a("cases", o.cases);
  a("exact_probes", o.exact_probes), a("dtypes", o.dtypes), a("faults", o.faults);
}

struct Writing {
  reports::JsonWriter& out;

  template <class T>
  void operator()(const char* key, T& item) {
    out.key(key);
    if constexpr (requires { fields(*this, item); })
      put(item);
    else if constexpr (requires { fields(*this, item.front()); })
      put_list(item);
    else
      out.value(item);
  }
  template <class T>
  void put(T& record) {
    out.begin_object();
    fields(*this, record);
    out.end_object();
  }
  template <class T>
  void put_list(std::vector<T>& list) {
    out.begin_array();
    for (T& record : list) put(record);
    out.end_array();
  }
};

struct Reading {
  const json& from;

  template <class T>
  void operator()(const char* key, T& item) {
    if constexpr (requires { fields(*this, item.front()); })
      get_list(from.at(key), item);
    else
      from.at(key).get_to(item);
  }
  template <class T>
  static void get_list(const json& list, std::vector<T>& into) {
    for (const json& entry : list) {
      Reading archive{entry};
      fields(archive, into.emplace_back());
    }
  }
};

}  // namespace

std::string to_json(const Catalogue& catalogue) {
  Catalogue copy = catalogue;  // the visitor serves readers too
  reports::JsonWriter out;
  Writing archive{out};
  out.begin_object().field("schema", 1).key("ops");
  archive.put_list(copy.ops);
  out.key("kernels");
  archive.put_list(copy.kernels);
  return out.end_object().text() + "\n";
}

Catalogue parse_catalogue(const std::string& text) {
  try {
    const json document = json::parse(text);
    Catalogue catalogue;
    Reading::get_list(document.at("ops"), catalogue.ops);
    Reading::get_list(document.at("kernels"), catalogue.kernels);
    return catalogue;
  } catch (const json::exception& error) {
    throw UsageError(fmt::format("registry.json cannot be read ({}); build again", error.what()));
  }
}

}  // namespace parity::cli
