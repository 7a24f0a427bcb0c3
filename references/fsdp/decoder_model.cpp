#include "references/fsdp/decoder_model.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "references/blocks/layers.hpp"
#include "references/decoder/problem.hpp"
#include "references/decoder/taps.hpp"

namespace parity::fsdp {
namespace {

using net::Array;

const std::string kTable = "model.embed_tokens", kHead = "lm_head";
constexpr std::size_t kEmbed = 0, kVision = 1, kFirstLayer = 2;

bool tied(const Case& c) { return c.options.flag("tied"); }
std::int64_t vision_width(const Case& c) { return c.options.integer("vision", 0); }

std::string layer_name(std::int64_t l) { return fmt::format("model.layers.{}", l); }

std::vector<Stage> stages_of(const Case& c) {
  std::vector<Stage> stages = {{kTable, {kTable}, false}, {"vision", {"vision"}, false}};
  for (std::int64_t l = 0; l < c.sizes["L"]; ++l)
    stages.push_back({layer_name(l), {layer_name(l)}, true});
  stages.push_back({kHead,
                    {"model.norm", "model.output_attn_res_norm", "model.output_attn_res_proj",
                     tied(c) ? kTable : kHead},
                    true});
  return stages;
}

Contract contract_of(Dtype dtype) {
  Contract contract{.name = std::string(name(dtype)), .accumulate = Dtype::F32};
  if (dtype == Dtype::BF16) contract.roundings = {{.where = "store", .to = Dtype::BF16}};
  return contract;
}

// Gradients of an expert without a token are zeros, so that every rank reduces the same.
bool may_be_empty(const std::string& parameter) {
  return parameter.find(".experts.") != std::string::npos;
}

}  // namespace

Case decoder_case(const Case& c) {
  Case inner = c;
  inner.op = "decoder";
  inner.options.set("loss", "1");
  return inner;
}

std::vector<TensorSpec> model_parameters(const Case& c) {
  std::vector<TensorSpec> specs;
  const auto image_branch = [&] {
    const std::int64_t F = vision_width(c), D = c.sizes["D"];
    if (F == 0) return;
    for (const auto& [name, rows, columns] :
         {std::tuple("gate", F, kImage), std::tuple("up", F, kImage), std::tuple("down", D, F)})
      specs.push_back({.name = fmt::format("params/vision.{}.weight", name),
                       .dims = {{"O", rows}, {"D", columns}}});
  };
  for (TensorSpec& spec : net::decoder_parameters(decoder_case(c))) {
    if (tied(c) && spec.name == "params/" + kHead + ".weight") continue;
    if (spec.name.ends_with("e_score_correction_bias")) continue;  // a buffer, without a gradient
    if (spec.name.find("layers.0.self_attention_res_") != std::string::npos) continue;
    spec.dtype = Dtype::F32;
    const bool table = spec.name == "params/" + kTable + ".weight";
    specs.push_back(std::move(spec));
    if (table) image_branch();
  }
  return specs;
}

std::vector<UnitSpec> model_units(const Case& c) {
  const std::string wrap = c.options.get("wrap", "block");
  if (wrap == "root") return {};
  if (wrap != "block" && wrap != "units") throw UsageError("no wrapping '" + wrap + "'");
  std::vector<UnitSpec> units;
  for (const Stage& stage : stages_of(c))
    if (wrap == "units" || stage.name.starts_with("model.layers."))
      units.push_back({stage.name, stage.modules});
  return units;
}

bool has_image(const Case& c, int rank) {
  const std::string images = c.options.get("image_ranks", "all");
  if (vision_width(c) == 0 || images == "none") return false;
  if (images == "all") return true;
  for (const std::string& word : split(images, '+'))
    if (word == std::to_string(rank)) return true;
  return false;
}

// One rank's run: its data, and what each microbatch's forward leaves for its backward.
struct DecoderModel::State {
  State(const Case& c, const Tensors& all, int r, std::string_view f)
      : problem(c),
        inner(decoder_case(c)),
        tensors(all),
        rank(r),
        fault(f),
        dtype(c.dtype),
        contract(contract_of(c.dtype)),
        config(net::decoder_config(inner)),
        run(BaseRequest{.problem = inner, .contract = contract, .inputs = tensors}),
        stages(stages_of(c)) {
    rows = net::decoder_rows(config, net::turns_of(run, config));
    for (const TensorSpec& spec : model_parameters(c)) {
      Parameter p{.name = spec.name.substr(7)};
      for (const Dim& dim : spec.dims) p.shape.push_back(dim.extent);
      parameters.push_back(std::move(p));
    }
    text = c.options.get("text_rank", "skip");
  }

  bool image() const { return has_image(problem, rank); }
  bool dummy() const {
    return !image() && text == "dummy" && problem.options.get("image_ranks", "all") != "none";
  }

  bool runs(std::size_t stage) const {
    if (stage != kVision) return true;
    if (fault == "P-fsdp-skipped-branch" && rank > 0) return false;
    return image() || dummy();
  }

  // This microbatch's rows of an integer tensor [steps, accum, R, B, T].
  std::vector<std::int64_t> ids(const std::string& name, int step, int micro) const {
    const Tensor& t = tensors.at(name);
    const std::vector<double> all = t.widened();
    const std::int64_t n = problem.sizes.get("B", 1) * problem.sizes["T"];
    const std::int64_t accum = problem.options.integer("accum", 1), R = problem.sizes["R"];
    const auto from = all.begin() + (((step - 1) * accum + micro) * R + rank) * n;
    std::vector<std::int64_t> part;
    for (auto it = from; it != from + n; ++it) part.push_back(static_cast<std::int64_t>(*it));
    return part;
  }

  Array<float> picture() const {
    Array<float> x({problem.sizes.get("B", 1), kImage});
    if (!image()) return x;
    const std::vector<double> all = tensors.at("image").widened();
    for (std::int64_t i = 0; i < x.count(); ++i)
      x[i] = dist::rounded(dtype,
                           static_cast<float>(all[static_cast<std::size_t>(rank * x.count() + i)]));
    return x;
  }

  // Weights come in under the names that the layers ask for, and go again.
  void lend(std::size_t stage, const Weights& weights) {
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (!uses(stage, p)) continue;
      Array<float> w(parameters[p].shape);
      const std::span<const float> values = weights[p];
      for (std::size_t i = 0; i < values.size(); ++i) w.data[i] = dist::rounded(dtype, values[i]);
      run.replace("params/" + borrowed(stage, p), std::move(w));
    }
    // Buffers, and what has no gradient: never sharded.
    const Array<float> zeros({problem.options.integer("experts", 0)});
    run.replace("params/" + stages[stage].name + ".block_sparse_moe.gate.e_score_correction_bias",
                zeros);
  }
  void take_back(std::size_t stage) {
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (!uses(stage, p)) continue;
      Array<float> gone(parameters[p].shape);
      std::ranges::fill(gone.data, std::nanf(""));
      run.replace("params/" + borrowed(stage, p), std::move(gone));
    }
  }
  bool uses(std::size_t stage, std::size_t p) const {
    return std::ranges::any_of(stages[stage].modules, [&](const std::string& module) {
      return parameters[p].name.starts_with(module + ".");
    });
  }
  std::string borrowed(std::size_t stage, std::size_t p) const {
    const bool last = stage + 1 == stages.size();
    return last && parameters[p].name == kTable + ".weight" ? kHead + ".weight"
                                                            : parameters[p].name;
  }

  net::Mlp branch() const { return {"vision.gate", "vision.up", "vision.down"}; }
  bool takes_image(std::size_t row) const {
    return image() && tokens[row] == problem.sizes["V"] - 1;
  }

  void forward(std::size_t stage, int step, int micro, const Weights& weights) {
    lend(stage, weights);
    if (stage == kEmbed) {
      tokens = ids("tokens", step, micro);
      layers.clear();
      stream.prefix = net::embedding(run, tokens, kTable + ".weight");
      stream.bank = Array<float>({stream.prefix.rows(), 0, stream.prefix.width()});
    } else if (stage == kVision) {
      const Array<float> features = net::mlp(run, picture(), branch());
      for (std::size_t r = 0; r < tokens.size(); ++r)
        if (takes_image(r)) {
          const std::span<float> to = stream.prefix.row(static_cast<std::int64_t>(r));
          const auto from = features.row(static_cast<std::int64_t>(r) / problem.sizes["T"]);
          for (std::size_t i = 0; i < to.size(); ++i) to[i] = dist::rounded(dtype, to[i] + from[i]);
        }
    } else if (stage + 1 < stages.size()) {
      const auto l = static_cast<std::int64_t>(stage - kFirstLayer);
      layers.push_back(net::decoder_layer(run, stream, config, l, rows));
      stream = {layers.back().bank, layers.back().prefix};
    } else {
      head = net::decoder_head(run, stream, config);
      net::CrossEntropy<float> ce =
          net::cross_entropy(run, head.logits, ids("labels", step, micro));
      const auto accum = static_cast<float>(problem.options.integer("accum", 1));
      losses.push_back(ce.loss / accum);
      d_logits = std::move(ce.d_logits);
      for (float& x : d_logits.data) x = dist::rounded(dtype, x / accum);
      if (logits.empty()) logits = head.logits.data;
    }
    take_back(stage);
  }

  std::vector<Gradient> backward(std::size_t stage, const Weights& weights) {
    lend(stage, weights);
    run.take();
    if (stage + 1 == stages.size()) {
      Array<float> unused;
      back = net::decoder_head_backward(run, stream, head, d_logits, config, unused);
    } else if (stage >= kFirstLayer) {
      const std::size_t l = stage - kFirstLayer;
      net::decoder_layer_backward(run, layers[l], back, config, static_cast<std::int64_t>(l), rows);
    } else if (stage == kVision) {
      Array<float> d({problem.sizes.get("B", 1), problem.sizes["D"]});
      for (std::size_t r = 0; r < tokens.size(); ++r)
        if (takes_image(r)) {
          const std::span<float> to = d.row(static_cast<std::int64_t>(r) / problem.sizes["T"]);
          const auto from = std::as_const(back.prefix).row(static_cast<std::int64_t>(r));
          for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
        }
      run.store(d);
      net::mlp_backward(run, picture(), d, branch());
    } else {
      net::embedding_backward(run, tokens, back.prefix, kTable + ".weight");
    }
    take_back(stage);
    return gradients(stage);
  }

  std::vector<Gradient> gradients(std::size_t stage) {
    auto results = run.take();
    std::vector<Gradient> list;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const bool zero_dependency = stage == kEmbed && text == "zerodep" && !image() &&
                                   problem.options.get("image_ranks", "all") != "none" &&
                                   uses(kVision, p);
      if (!uses(stage, p) && !zero_dependency) continue;
      Gradient g{.parameter = p, .dtype = dtype};
      const auto it = results.find("grads/params/" + borrowed(stage, p));
      if (it != results.end())
        g.values = std::move(it->second.data);
      else if (may_be_empty(parameters[p].name) || zero_dependency)
        g.values.assign(static_cast<std::size_t>(parameters[p].count()), 0.f);
      else
        continue;
      for (float& x : g.values) x = dist::rounded(dtype, x);
      if (fault == "P-fsdp-expert-scale" && may_be_empty(parameters[p].name))
        for (float& x : g.values) x *= static_cast<float>(problem.sizes["R"]);
      list.push_back(std::move(g));
    }
    return list;
  }

  Case problem, inner;
  const Tensors& tensors;
  int rank;
  std::string fault;
  Dtype dtype;
  Contract contract;
  net::Decoder config;
  net::Run<float> run;
  std::vector<Stage> stages;
  net::MlaRows<float> rows;
  std::vector<Parameter> parameters = {};
  std::string text = {};
  std::vector<std::int64_t> tokens = {};
  net::Stream<float> stream = {}, back = {};
  std::vector<net::DecoderLayer<float>> layers = {};
  net::DecoderHead<float> head = {};
  Array<float> d_logits = {};
  std::vector<float> losses = {}, logits = {};
};

DecoderModel::DecoderModel(const Case& c, const Tensors& tensors, int rank, std::string_view fault)
    : state_(std::make_unique<State>(c, tensors, rank, fault)) {
  State* s = state_.get();
  model_.parameters = s->parameters;
  model_.stages = s->stages;
  model_.runs = [s](std::size_t stage, int, int) { return s->runs(stage); };
  model_.forward = [s](std::size_t stage, int step, int micro, const Weights& w) {
    s->forward(stage, step, micro, w);
  };
  model_.backward = [s](std::size_t stage, int, int, const Weights& w) {
    return s->backward(stage, w);
  };
}
DecoderModel::~DecoderModel() = default;

const std::vector<float>& DecoderModel::losses() const { return state_->losses; }
const std::vector<float>& DecoderModel::logits() const { return state_->logits; }

}  // namespace parity::fsdp
