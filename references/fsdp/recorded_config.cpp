#include "references/fsdp/recorded_config.hpp"

#include <array>
#include <cmath>
#include <set>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::fsdp {
namespace {

constexpr std::array kOptions = {"wrap",        "raf",          "reshard_after_backward",
                                 "param_dtype", "reduce_dtype", "orig_dtype",
                                 "hsdp",        "accum",        "sync",
                                 "clip_norm",   "clip_type",    "divide_factor",
                                 "force_sum",   "opt",          "steps",
                                 "shard1",      "text_rank"};

std::optional<Dtype> dtype_of(const std::string& text) {
  if (text.empty() || text == "none") return {};
  return parse_dtype(text);
}

}  // namespace

Options recorded_options(const StoredCase& stored) {
  Options options;
  for (const char* key : kOptions)
    if (const auto it = stored.attributes.find(key); it != stored.attributes.end())
      options.set(key, it->second);
  return options;
}

std::vector<UnitSpec> units_of(const std::string& wrap, const std::vector<std::string>& names) {
  if (wrap == "root") return {};
  if (wrap != "block" && wrap != "units") throw UsageError("no wrapping '" + wrap + "'");
  std::vector<UnitSpec> units;
  const bool all = wrap == "units";
  if (all) units = {{"tok", {"tok"}}, {"vis", {"vis"}}};
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!name.starts_with("blocks.")) continue;
    const std::string block = name.substr(0, name.find('.', 7));
    if (seen.insert(block).second) units.push_back({block, {block}});
  }
  if (all) units.push_back({"norm+head", {"norm", "head"}});
  return units;
}

Config config_of(const Case& c) {
  const Options& o = c.options;
  Config config;
  const std::string raf = o.get("raf", "default");
  if (raf == "true")
    config.reshard = Config::Reshard::Always;
  else if (raf == "false")
    config.reshard = Config::Reshard::Never;
  else if (raf != "default") {
    config.reshard = Config::Reshard::Group;
    config.reshard_group = static_cast<int>(to_integer(raf, "raf"));
  }
  config.reshard_after_backward = o.integer("reshard_after_backward", 1) != 0;
  config.param_dtype = dtype_of(o.get("param_dtype", ""));
  config.reduce_dtype = dtype_of(o.get("reduce_dtype", ""));
  if (const std::int64_t replicas = o.integer("hsdp", 0); replicas > 0)
    config.replicas = static_cast<int>(replicas);
  config.divide_factor = o.real("divide_factor", 0);
  config.force_sum = o.flag("force_sum");
  config.steps = static_cast<int>(o.integer("steps", 1));
  config.accum = static_cast<int>(o.integer("accum", 1));
  config.sync_each = o.get("sync", "last") == "each";
  const std::string type = o.get("clip_type", "2");
  config.clip_type = type == "inf" ? INFINITY : to_real(type, "clip_type");
  config.clip_norm = o.real("clip_norm", 0);
  const std::string opt = o.get("opt", "adamw");
  if (opt != "adamw" && opt != "sgd") throw UsageError("no optimizer '" + opt + "'");
  config.optimizer = opt == "adamw" ? adamw() : sgd();
  return config;
}

}  // namespace parity::fsdp
