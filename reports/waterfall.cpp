#include "reports/waterfall.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <optional>

#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

constexpr std::string_view kAlone = "isolated";

bool is_alone(const CaseRecord& record) {
  const auto option = record.options.find(std::string(kAlone));
  return option != record.options.end() && option->second == "1";
}

// What a whole run and that of its layers have in common.
std::string pair_key(const CaseRecord& record) {
  std::string id = record.id;
  for (const char* option : {"isolated=1,", ",isolated=1"})
    if (const std::size_t at = id.find(option); is_alone(record) && at != std::string::npos) {
      id.erase(at, std::string_view(option).size());
      break;
    }
  return fmt::format("{} {} {} {}", id, record.direction, record.check, record.fault);
}

const TensorRecord* find(const CaseRecord& record, const std::string& name) {
  const auto found = std::ranges::find(record.tensors, name, &TensorRecord::name);
  return found == record.tensors.end() ? nullptr : &*found;
}

// The number behind `word`, where a dot follows it.
std::optional<std::int64_t> number_behind(std::string_view name, std::string_view word) {
  const std::size_t at = name.find(word);
  if (at == std::string_view::npos) return {};
  const char* const end = name.data() + name.size();
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(name.data() + at + word.size(), end, number);
  if (error != std::errc() || stop == end || *stop != '.') return {};
  return number;
}

// The layer that computes a tensor of an isolated run; `layers`: the head.
std::int64_t layer_of(const TensorRecord& t, std::int64_t layers) {
  for (const char* word : {"tap/layer", "at/layer", ".layers."})
    if (const auto number = number_behind(t.name, word)) return *number;
  return t.name.find("embed_tokens") != std::string::npos ? 0 : layers;
}

double budget_of(const TensorRecord& t) {
  for (const ViewResult& view : t.views)
    if (view.view == name(View::Floor)) return view.limit;
  return 0;
}

// Both are beyond a limit.
bool farther(const TensorRecord& a, const TensorRecord& b) {
  const auto reach = [](const TensorRecord& t) {
    const double e = excess(*telling_view(t));
    return std::isnan(e) ? INFINITY : e;
  };
  return reach(a) > reach(b);
}

// "28x its limit (bound)", and in a discrete view, which allows nothing, how many differ.
std::string how_far(const TensorRecord& t) {
  const ViewResult& view = *telling_view(t);
  return view.limit > 0
             ? fmt::format("{} its limit ({})", times(excess(view)), view.view)
             : fmt::format("{} where none may differ ({})", number(view.value), view.view);
}

bool is_dead(const TensorRecord& t) { return t.norm_ratio == 0 && t.truth_rms > 0; }

// The stream that a layer leaves: behind it in the forward, before it in the backward.
struct Stream {
  std::string whole, alone;
};
Stream stream_of(std::int64_t layer, std::int64_t layers, bool backward) {
  const std::string at = layer == layers ? "at/output." : fmt::format("at/layer{}.", layer);
  if (backward && layer == 0) return {"grads/params/model.embed_tokens.weight", ""};
  if (backward)
    return {fmt::format("grads/tap/layer{}.prefix", layer - 1), "grads/inputs/" + at + "prefix"};
  return {layer == layers ? "logits" : fmt::format("tap/layer{}.prefix", layer), ""};
}

std::int64_t count_layers(const CaseRecord& alone) {
  std::int64_t layers = 0;
  while (find(alone, fmt::format("tap/layer{}.prefix", layers)) ||
         find(alone, fmt::format("grads/tap/layer{}.attn", layers)))
    ++layers;
  return layers;
}

LayerError layer_error(const CaseRecord& whole, const CaseRecord& alone, std::int64_t layer,
                       std::int64_t layers, bool backward) {
  LayerError e{.layer = layer == layers ? "head" : fmt::format("layer{}", layer),
               .backward = backward};
  const Stream stream = stream_of(layer, layers, backward);
  const TensorRecord* all = find(whole, stream.whole);
  const TensorRecord* own = find(alone, stream.alone.empty() ? stream.whole : stream.alone);
  if (own) e.own = own->rel_l2, e.budget = budget_of(*own);
  if (all && own) e.inherited = std::max(0.0, all->rel_l2 - own->rel_l2);
  for (const TensorRecord& t : alone.tensors) {
    if ((t.role == "gradient") != backward || layer_of(t, layers) != layer) continue;
    if (!telling_view(t)) continue;
    if (!e.over || (backward && farther(t, *e.over))) e.over = &t;
  }
  return e;
}

Waterfall waterfall(const CaseRecord& whole, const CaseRecord& alone) {
  Waterfall w{.whole = &whole, .alone = &alone};
  const std::int64_t layers = count_layers(alone);
  const auto has = [&](bool backward) {
    return std::ranges::any_of(
        alone.tensors, [&](const TensorRecord& t) { return (t.role == "gradient") == backward; });
  };
  for (std::int64_t l = 0; l <= layers && has(false); ++l)
    w.layers.push_back(layer_error(whole, alone, l, layers, false));
  for (std::int64_t l = layers; l >= 0 && has(true); --l)
    w.layers.push_back(layer_error(whole, alone, l, layers, true));
  return w;
}

// Of the parameters of that layer the one whose gradient is missing altogether, or else the one
// whose is farthest beyond its limit.
const TensorRecord* parameter_of(const Waterfall& w, const LayerError& e) {
  const TensorRecord* worst = nullptr;
  for (const TensorRecord& t : w.alone->tensors) {
    const auto layer = number_behind(t.parameter, "layers.");
    if (!layer || fmt::format("layer{}", *layer) != e.layer || !telling_view(t)) continue;
    if (!worst || (is_dead(t) && !is_dead(*worst)) ||
        (is_dead(t) == is_dead(*worst) && farther(t, *worst)))
      worst = &t;
  }
  return worst;
}

}  // namespace

const LayerError* Waterfall::first() const {
  const auto found = std::ranges::find_if(layers, [](const LayerError& e) { return e.over; });
  return found == layers.end() ? nullptr : &*found;
}

std::vector<Waterfall> waterfalls(const std::vector<CaseRecord>& records) {
  std::map<std::string, const CaseRecord*> alone;
  for (const CaseRecord& record : records)
    if (is_alone(record) && !record.tensors.empty()) alone.emplace(pair_key(record), &record);
  std::vector<Waterfall> all;
  for (const CaseRecord& record : records) {
    if (is_alone(record) || record.tensors.empty()) continue;
    if (const auto twin = alone.find(pair_key(record)); twin != alone.end())
      all.push_back(waterfall(record, *twin->second));
  }
  return all;
}

std::string sentence(const Waterfall& w) {
  const LayerError* first = w.first();
  if (!first) {
    return w.whole->status == "fail"
               ? "no layer is over its own budget: what the whole run has too much is inherited"
               : "every layer is within its own budget";
  }
  std::string text = fmt::format("{} is the first over its own budget, in the {}: {} is {}",
                                 first->layer, first->backward ? "backward" : "forward",
                                 first->over->name, how_far(*first->over));
  const TensorRecord* parameter = parameter_of(w, *first);
  if (parameter && is_dead(*parameter))
    text += fmt::format("; {} has no gradient", parameter->parameter);
  else if (parameter && parameter != first->over)
    text += fmt::format("; of its parameters farthest is {}, {}", parameter->parameter,
                        how_far(*parameter));
  return text;
}

std::string console_waterfall(const Waterfall& w) {
  struct Line {
    const LayerError* forward = nullptr;
    const LayerError* backward = nullptr;
  };
  std::vector<std::pair<std::string, Line>> lines;
  for (const LayerError& e : w.layers) {
    auto line = std::ranges::find(lines, e.layer, &std::pair<std::string, Line>::first);
    if (line == lines.end()) line = lines.insert(lines.end(), {e.layer, {}});
    (e.backward ? line->second.backward : line->second.forward) = &e;
  }
  std::string text =
      fmt::format("layers of {}, error of the residual stream (rel L2)\n", visible(w.whole->id));
  text += fmt::format("{:<8} {:^42}   {:>25}\n", "", "forward", "backward");
  constexpr std::string_view kColumns = "{:>10} {:>10} {:>10}";
  const std::string columns = fmt::format(kColumns, "inherited", "own", "budget");
  text += fmt::format("{:<8} {}             {}\n", "", columns, columns);
  const LayerError* first = w.first();
  for (const auto& [layer, line] : lines) {
    std::string row = fmt::format("{:<8}", layer);
    for (const LayerError* e : {line.forward, line.backward}) {
      if (e != line.forward) row += "  ";
      if (e)
        row += fmt::format(" {:>10} {:>10} {:>10} {:<9}", number(e->inherited), number(e->own),
                           number(e->budget),
                           !e->over     ? ""
                           : e == first ? "<= first"
                                        : "over");
      else
        row += fmt::format("{:43}", "");
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + '\n';
  }
  return text + sentence(w) + "\n";
}

std::string to_json_line(const Waterfall& w) {
  JsonWriter out;
  out.begin_object().field("kind", "waterfall").field("case", w.whole->id);
  out.field("alone", w.alone->id).field("direction", w.whole->direction);
  if (const LayerError* first = w.first()) out.field("first", first->layer);
  out.field("sentence", sentence(w)).key("layers").begin_array();
  for (const LayerError& e : w.layers) {
    out.begin_object().field("layer", e.layer);
    out.field("direction", e.backward ? "backward" : "forward");
    out.field("inherited", e.inherited).field("own", e.own).field("budget", e.budget);
    out.field("over", e.over != nullptr);
    if (e.over)
      out.field("tensor", e.over->name)
          .field("view", e.over->view)
          .field("excess", excess(*telling_view(*e.over)));
    out.end_object();
  }
  return out.end_array().end_object().text();
}

}  // namespace parity::reports
