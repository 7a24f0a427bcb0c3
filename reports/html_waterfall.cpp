// The waterfall of one pair of records on the page: the verdict in a sentence, a bar a layer, and
// the layers that are over their budget with the tensor that tells.
#include <fmt/format.h>

#include "reports/page.hpp"
#include "reports/svg.hpp"
#include "reports/waterfall.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

// "layer7" is 7 under the bars.
std::string tick(const std::string& layer) {
  return layer.starts_with("layer") ? layer.substr(std::string_view("layer").size()) : layer;
}

std::string link(const CaseRecord& record, std::string_view text) {
  return fmt::format(R"(<a href="{}">{}</a>)", escaped(page::link_to(record)), text);
}

}  // namespace

std::string html_waterfall(const Waterfall& w) {
  std::vector<svg::LayerBars> groups;
  for (const bool backward : {false, true}) {
    svg::LayerBars group{backward ? "layer, backward" : "layer, forward", {}};
    for (const LayerError& e : w.layers)
      if (e.backward == backward)
        group.bars.push_back(
            {tick(e.layer), e.inherited + e.own, e.own, e.budget, e.over != nullptr});
    if (!group.bars.empty()) groups.push_back(std::move(group));
  }
  page::Table table({"layer", "direction", "$beyond its own limit", "view", "#times", "#inherited",
                     "#own", "#budget"});
  for (const LayerError& e : w.layers)
    if (e.over)
      table.row({escaped(e.layer), e.backward ? "backward" : "forward", escaped(e.over->name),
                 escaped(e.over->view), times(excess(*telling_view(*e.over))), number(e.inherited),
                 number(e.own), number(e.budget)});
  return fmt::format(R"(<h4>Layers</h4><p class="{}">{}</p><div class="waterfall">{}</div>)",
                     w.first() ? "fail" : "soft", escaped(sentence(w)), svg::layers(groups)) +
         R"(<div class="legend"><span><i class="bar-n1"></i>the whole run's error (rel L2 of the residual stream)</span>)"
         R"(<span><i class="bar-own"></i>the layer's own, run by itself on the truth's input</span>)"
         R"(<span><i class="bar-over"></i>own, with a tensor over its limit</span>)"
         R"(<span><i class="bar-budget"></i>its budget</span></div>)" +
         fmt::format(R"(<p class="soft">{}, {}</p>)", link(*w.whole, "the whole run"),
                     link(*w.alone, "every layer by itself")) +
         (table.empty() ? "" : table.html());
}

}  // namespace parity::reports
