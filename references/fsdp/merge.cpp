#include "references/fsdp/merge.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "harness/failure.hpp"
#include "references/fsdp/bits.hpp"
#include "references/fsdp/norm.hpp"

namespace parity::fsdp {
namespace {

using Shards = std::vector<std::span<const float>>;

class Tables {
 public:
  Tables(const Layout& layout, const Config& config, const std::vector<RankRecord>& ranks,
         std::int64_t name_width)
      : layout_(layout),
        config_(config),
        ranks_(ranks),
        P_(static_cast<std::int64_t>(layout.parameters().size())),
        original_(layout.parameters().front().original),
        name_width_(name_width) {}

  std::vector<ExpectedTensor> all() {
    for (std::size_t s = 0; s < ranks_.front().steps.size(); ++s) step(s);
    norms();
    layout();
    for (std::size_t r = 0; r < ranks_.size(); ++r) rank(r);
    return std::move(list_);
  }

 private:
  std::size_t parameters() const { return layout_.parameters().size(); }
  bool has(std::size_t s, std::size_t p) const {
    return ranks_.front().steps[s].gradients[p].has_value();
  }

  template <class Part>
  void whole(const std::string& name, Role role, const Part& part) {
    std::vector<float> flat;
    for (std::size_t p = 0; p < parameters(); ++p) {
      Shards parts;
      for (int r = 0; r < layout_.ranks(); ++r)
        parts.push_back(part(static_cast<std::size_t>(r), p));
      const std::vector<float> merged =
          parts.front().data() == nullptr && layout_.local_elements(p, 0) > 0
              ? std::vector<float>(static_cast<std::size_t>(layout_.parameters()[p].count()))
              : layout_.merge(p, parts);
      flat.insert(flat.end(), merged.begin(), merged.end());
    }
    list_.push_back(
        exact(name, role, original_, {{"element", static_cast<std::int64_t>(flat.size())}}, flat));
  }

  void step(std::size_t s) {
    whole(fmt::format("grads/step{}", s + 1), Role::Gradient, [&](std::size_t r, std::size_t p) {
      const auto& g = ranks_[r].steps[s].gradients[p];
      return g ? std::span<const float>(*g) : std::span<const float>();
    });
    whole(fmt::format("params_after_step{}", s + 1), Role::Output,
          [&](std::size_t r, std::size_t p) {
            return std::span<const float>(ranks_[r].steps[s].parameters[p]);
          });
    if (s > 0) return;
    std::vector<double> given;
    for (std::size_t p = 0; p < parameters(); ++p) given.push_back(has(s, p) ? 1 : 0);
    list_.push_back(exact("grads/has_grad", Role::Codes, Dtype::U8, {{"parameter", P_}}, given));
  }

  // Norms that no collective of the run made: from the shards' own, in the order of the run.
  float total(std::size_t s, double p) const {
    const auto shards = static_cast<std::size_t>(layout_.ranks());
    std::vector<std::vector<float>> partial(shards);
    for (std::size_t q = 0; q < parameters(); ++q) {
      if (!has(s, q)) continue;
      for (std::size_t r = 0; r < shards; ++r) {
        if (std::isinf(p) && layout_.local_elements(q, static_cast<int>(r)) == 0)
          return std::nanf("");  // it does not exist on that rank
        partial[r].push_back(
            to_partial(ranks_[r].steps[s].norms[q][std::isinf(p) ? 1 : 0], p, original_));
      }
    }
    std::vector<const float*> parts;
    for (const auto& x : partial) parts.push_back(x.data());
    std::vector<float> sum(partial.front().size());
    const dist::Plan plan =
        dist::plan_of(config_.order, layout_.ranks(), static_cast<std::int64_t>(sum.size()),
                      dist::itemsize(original_));
    dist::combine(plan, std::isinf(p) ? dist::Combine::Max : dist::Combine::Sum, original_, 0,
                  parts, sum);
    for (float& x : sum) x = from_partial(x, p, original_);
    return local_norm(sum, p, original_);
  }

  void norms() {
    std::vector<float> two, inf, clip;
    for (std::size_t s = 0; s < ranks_.front().steps.size(); ++s) {
      two.push_back(total(s, 2));
      inf.push_back(total(s, INFINITY));
      clip.push_back(ranks_.front().steps[s].clip_total);
    }
    const std::vector<Dim> dims = {{"step", static_cast<std::int64_t>(two.size())}};
    list_.push_back(exact("norms/total_p2", Role::Output, Dtype::F32, dims, two));
    list_.push_back(exact("norms/total_pinf", Role::Output, Dtype::F32, dims, inf));
    list_.push_back(exact("norms/clip_total", Role::Output, Dtype::F32, dims, clip));
  }

  void layout() {
    std::vector<double> unit, order, offset, padded, rows;
    std::vector<std::string> names;
    for (const Unit& u : layout_.units()) names.push_back(u.name);
    const auto shards = static_cast<std::size_t>(layout_.ranks());
    for (std::size_t p = 0; p < parameters(); ++p) {
      const std::size_t u = layout_.unit_of(p), at = layout_.order_in_unit(p);
      unit.push_back(static_cast<double>(u));
      order.push_back(static_cast<double>(at));
      offset.push_back(static_cast<double>(layout_.units()[u].offset[at]));
      padded.push_back(static_cast<double>(layout_.rows_padded(p)));
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        rows.push_back(static_cast<double>(layout_.rows_on(p, static_cast<int>(r % shards))));
    }
    const std::vector<Dim> dims = {{"parameter", P_}};
    list_.push_back(exact("layout/unit_of_param", Role::Ids, Dtype::I32, dims, unit));
    list_.push_back(exact("layout/order_in_unit", Role::Ids, Dtype::I32, dims, order));
    list_.push_back(exact("layout/shard_offset", Role::Ids, Dtype::I64, dims, offset));
    list_.push_back(exact("layout/rows_padded", Role::Ids, Dtype::I64, dims, padded));
    list_.push_back(exact("layout/rows_on_rank", Role::Ids, Dtype::I64,
                          {{"parameter", P_}, {"rank", static_cast<std::int64_t>(ranks_.size())}},
                          rows));
    list_.push_back(lines("layout/units", names, name_width_));
  }

  void rank(std::size_t r) {
    const std::string at = fmt::format("rank_{}/", r);
    std::vector<float> norms;
    for (std::size_t s = 0; s < ranks_[r].steps.size(); ++s) {
      const StepRecord& step = ranks_[r].steps[s];
      std::vector<float> shard;
      for (std::size_t p = 0; p < parameters(); ++p) {
        if (!step.gradients[p]) continue;
        shard.insert(shard.end(), step.gradients[p]->begin(), step.gradients[p]->end());
      }
      if (!shard.empty())
        list_.push_back(exact(fmt::format("{}shard_step{}", at, s + 1), Role::Output, original_,
                              {{"element", static_cast<std::int64_t>(shard.size())}}, shard));
      for (const std::size_t kind : {0u, 1u})
        for (const std::array<float, 2>& n : step.norms) norms.push_back(n.at(kind));
    }
    list_.push_back(exact(at + "shard_norms", Role::Output, Dtype::F32,
                          {{"step", static_cast<std::int64_t>(ranks_[r].steps.size())},
                           {"norm", 2},
                           {"parameter", P_}},
                          norms));
    std::vector<std::string> calls;
    for (const dist::Call& call : ranks_[r].trace.calls) calls.push_back(line(call));
    if (calls.empty()) calls.push_back("-");
    list_.push_back(lines(at + "trace", calls));
  }

  const Layout& layout_;
  const Config& config_;
  const std::vector<RankRecord>& ranks_;
  std::int64_t P_;
  Dtype original_;
  std::int64_t name_width_;
  std::vector<ExpectedTensor> list_ = {};
};

}  // namespace

std::vector<ExpectedTensor> tables(const Layout& layout, const Config& config,
                                   const std::vector<RankRecord>& ranks, std::int64_t name_width) {
  return Tables(layout, config, ranks, name_width).all();
}

std::size_t owner(const std::string& parameter, const std::vector<Stage>& stages) {
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const std::string& module : stages[s].modules)
      if (parameter.starts_with(module + ".")) return s;
  throw Failure(parameter + " belongs to no stage");
}

}  // namespace parity::fsdp
