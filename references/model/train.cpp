// Deterministic training of a decoder: AdamW, warm-up and cosine, clipping; every random number is
// a function of a seed and a position, so that a run that was stopped goes on bit for bit.
#include "harness/torch/train.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include "harness/numeric/philox.hpp"
#include "references/model/decoder.hpp"

namespace parity {
namespace {

using at::Tensor;

constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kEps = 1e-8;
constexpr double kLeastRate = 0.1;  // of the peak, at the end of the cosine
constexpr std::int64_t kMagic = 0x70617274;

model::DecoderConfig config_of(const TrainPlan& p, const at::Device& device) {
  const auto options = at::TensorOptions().device(device);
  model::DecoderConfig d{.prefix = p.prefix, .full = p.full, .dense = p.dense, .block = p.block};
  d.unit = {.beta = 4, .linear_beta = 25};
  d.mla = {.heads = p.heads,
           .nope = p.q_nope,
           .rotary = p.q_rope,
           .value = p.v_head,
           .scale = std::pow(static_cast<double>(p.q_nope + p.q_rope), -0.5)};
  d.mla.allowed = at::ones({1, 1, p.length, p.length}, options.dtype(at::kBool)).tril();
  d.kda = {.H = p.heads, .HV = p.heads, .K = p.kda_head, .V = p.kda_head};
  d.kda.starts = {0};
  for (std::int64_t b = 1; b <= p.batch; ++b)
    if (p.fault != TrainFault::StaleState || b == p.batch) d.kda.starts.push_back(b * p.length);
  d.moe = {.router = {.k = p.choices}, .unit = d.unit, .experts = p.experts};
  return d;
}

bool ends(const std::string& name, std::string_view with) { return name.ends_with(with); }

// Norms start at one, A_log and dt_bias where the gates decay slowly, matrices at 0.02 of a normal
// law; then one ulp up or down where the plan asks for noise.
Tensor initial(const TrainParameter& parameter, std::size_t index, const TrainPlan& plan) {
  Tensor t = at::empty(parameter.shape, at::kFloat);
  auto* x = t.mutable_data_ptr<float>();
  const Rng rng{.seed = plan.data_seed, .stream = index};
  const Rng noise{.seed = plan.noise_seed, .stream = index};
  const bool one = parameter.shape.size() == 1 && ends(parameter.name, "norm.weight");
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    x[i] = one                               ? 1.0F
           : ends(parameter.name, "A_log")   ? static_cast<float>(rng.uniform(at, 0, 2))
           : ends(parameter.name, "dt_bias") ? static_cast<float>(rng.uniform(at, -4, -1))
                                             : static_cast<float>(0.02 * rng.normal(at));
    if (plan.noise_seed != 0)
      x[i] = std::nextafter(x[i], noise.bits(at) & 1 ? INFINITY : -INFINITY);
  }
  return t;
}

// Values on the grid of a float with `mantissa` fraction bits, smallest exponent `low`, largest
// value `most`; to nearest, ties to even.
Tensor on_grid(const Tensor& x, int mantissa, int low, double most) {
  const Tensor exponent = at::floor(at::log2(x.abs().clamp_min(1e-38))).clamp_min(low);
  const Tensor unit = at::exp2(exponent - mantissa);
  return (at::round(x / unit) * unit).clamp(-most, most);
}

// The weight as the format would hold it; gradients pass straight through.
Tensor stored(const Tensor& w, const std::string& format) {
  if (format == "f32" || w.dim() != 2) return w;
  const Tensor x = w.detach();
  Tensor y;
  if (format == "bf16") {
    y = x.to(at::kBFloat16).to(at::kFloat);
  } else if (format == "fp8") {  // e4m3, one scale for the tensor
    const Tensor scale = x.abs().max().clamp_min(1e-30) / 448;
    y = on_grid(x / scale, 3, -6, 448) * scale;
  } else {
    const std::int64_t block = format == "mxfp8" ? 32 : 16;
    if (x.size(1) % block != 0) return w;  // a low-rank map that no block fits stays as it is
    const Tensor rows = x.reshape({x.size(0), -1, block});
    const Tensor amax = rows.abs().amax(-1, true).clamp_min(1e-30);
    if (format == "mxfp8") {  // e4m3 elements, a power of two for 32 of them
      const Tensor scale = at::exp2(at::floor(at::log2(amax)) - 8);
      y = on_grid(rows / scale, 3, -6, 448) * scale;
    } else {  // nvfp4: e2m1 elements, an e4m3 scale for 16 of them, one f32 scale for the tensor
      const Tensor global = x.abs().max().clamp_min(1e-30) / (6.0 * 448.0);
      const Tensor scale = on_grid(amax / 6 / global, 3, -6, 448).clamp_min(0x1p-9) * global;
      y = on_grid(rows / scale, 1, 0, 6) * scale;
    }
    y = y.reshape(x.sizes());
  }
  return w + (y - x);
}

bool quantised(const std::string& name, const TrainPlan& plan) {
  if (name.find("_proj") == std::string::npos && name.find("experts.") == std::string::npos)
    return false;
  if (name.find("res_proj") != std::string::npos) return false;
  // The last 15 % of the layers stay in bf16, as the public recipe has it.
  const std::size_t at = name.find("layers.");
  return at != std::string::npos &&
         std::stoll(name.substr(at + 7)) < plan.layers - (plan.layers * 15 + 99) / 100;
}

class Trainer {
 public:
  explicit Trainer(const TrainPlan& plan)
      : plan_(plan), device_(plan.device), config_(config_of(plan, device_)) {
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      Tensor t = initial(plan.parameters[i], i, plan).to(device_);
      if (plan.fault == TrainFault::RouterBias && !plan.parameters[i].trained) t.zero_();
      if (plan.parameters[i].trained) {
        t.requires_grad_(true);
        names_.push_back(plan.parameters[i].name);
        weights_.push_back(t);
        first_.push_back(at::zeros_like(t).detach());
        second_.push_back(at::zeros_like(t).detach());
      }
      all_[plan.parameters[i].name] = t;
    }
    if (!plan.resume.empty()) load();
  }

  TrainStep step(std::int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    TrainStep told{.step = step, .rate = rate_at(step)};
    const Tensor loss = loss_of(step);
    const std::vector<Tensor> gradients =
        torch::autograd::grad({loss}, weights_, {}, false, false, /*allow_unused=*/true);
    told.loss = loss.item<double>();
    update(step, gradients, told);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    told.tokens_per_s = static_cast<double>(plan_.batch * plan_.length) / took.count();
    return told;
  }

  void save() const {
    const std::string temporary = plan_.save + ".tmp";
    std::ofstream out(temporary, std::ios::binary);
    const auto number = [&](std::int64_t n) {
      out.write(reinterpret_cast<const char*>(&n), sizeof n);
    };
    number(kMagic), number(plan_.last), number(std::ssize(weights_));
    for (const auto* list : {&weights_, &first_, &second_})
      for (const Tensor& t : *list) {
        const Tensor host = t.detach().to(at::kCPU, at::kFloat).contiguous();
        number(host.numel());
        out.write(reinterpret_cast<const char*>(host.const_data_ptr<float>()), host.numel() * 4);
      }
    out.close();
    if (!out) throw std::runtime_error(plan_.save + ": cannot be written");
    std::filesystem::rename(temporary, plan_.save);
  }

 private:
  const TrainPlan& plan_;
  at::Device device_;
  model::DecoderConfig config_;
  std::vector<std::string> names_ = {};
  std::vector<Tensor> weights_ = {}, first_ = {}, second_ = {};
  model::Named all_ = {};

  void load() {
    std::ifstream in(plan_.resume, std::ios::binary);
    const auto number = [&] {
      std::int64_t n = 0;
      in.read(reinterpret_cast<char*>(&n), sizeof n);
      return n;
    };
    if (number() != kMagic || number() != plan_.first || number() != std::ssize(weights_))
      throw std::runtime_error(plan_.resume + ": is no checkpoint of this run at this step");
    const at::NoGradGuard guard;
    for (auto* list : {&weights_, &first_, &second_})
      for (Tensor& t : *list) {
        if (number() != t.numel()) throw std::runtime_error(plan_.resume + ": holds another model");
        Tensor host = at::empty(t.sizes(), at::kFloat);
        in.read(reinterpret_cast<char*>(host.mutable_data_ptr<float>()), host.numel() * 4);
        t.copy_(host);
      }
    if (!in) throw std::runtime_error(plan_.resume + ": ends too early");
  }

  double rate_at(std::int64_t step) const {
    const auto t = static_cast<double>(step + 1);
    const double share =
        std::min(1.0, std::max(0.0, t - plan_.warm_up) /
                          std::max(1.0, static_cast<double>(plan_.steps) - plan_.warm_up));
    const double cosine =
        kLeastRate + (1 - kLeastRate) * 0.5 * (1 + std::cos(share * 3.14159265358979323846));
    const double rate = plan_.rate * (t < plan_.warm_up ? t / plan_.warm_up : cosine);
    return plan_.fault == TrainFault::RateUp ? rate * 1.005 : rate;
  }

  Tensor loss_of(std::int64_t step) {
    std::vector<std::int64_t> tokens, labels;
    std::int64_t judged = 0;
    for (std::int64_t b = 0; b < plan_.batch; ++b) {
      const std::vector<std::int64_t> text = plan_.text(step * plan_.batch + b);
      for (std::int64_t t = 0; t < plan_.length; ++t) {
        const std::int64_t next = text.at(static_cast<std::size_t>(t + 1));
        tokens.push_back(std::max<std::int64_t>(0, text[static_cast<std::size_t>(t)]));
        labels.push_back(next < 0 ? -100 : next);
        judged += next >= 0;
      }
    }
    const Tensor ids = at::tensor(tokens, at::kLong).view({plan_.batch, plan_.length}).to(device_);
    const Tensor targets = at::tensor(labels, at::kLong).to(device_);
    model::Named named = all_;
    if (plan_.linears != "f32")
      for (auto& [name, w] : named)
        if (quantised(name, plan_)) w = stored(w, plan_.linears);
    const model::DecoderOutput out =
        model::decoder(model::embed(ids, named, config_), named, config_);
    const Tensor loss = model::cross_entropy(out.logits, targets);
    return plan_.fault == TrainFault::PaddingLoss
               ? loss * (static_cast<double>(judged) / static_cast<double>(labels.size()))
               : loss;
  }

  void update(std::int64_t step, std::vector<Tensor> gradients, TrainStep& told) {
    const at::NoGradGuard guard;
    double square = 0;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      Tensor& g = gradients[i];
      if (!g.defined()) g = at::zeros_like(weights_[i]);
      if (plan_.fault == TrainFault::LayerGradient &&
          names_[i].find("layers.1.") != std::string::npos)
        g = g * 1.01;
      if (plan_.fault == TrainFault::ExpertGradient &&
          names_[i].find(".experts.") != std::string::npos)
        g = g * 0.5;
      const double norm = g.to(at::kDouble).norm().item<double>();
      told.norms.push_back(norm);
      square += norm * norm;
    }
    told.grad_norm = std::sqrt(square);
    const double clip = plan_.fault == TrainFault::NoClipping
                            ? 1
                            : std::min(1.0, plan_.clip / (told.grad_norm + 1e-6));
    const auto t = static_cast<double>(step + 1);
    const double c1 = 1 - std::pow(kBeta1, t), c2 = 1 - std::pow(kBeta2, t);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Tensor g = gradients[i] * clip;
      first_[i].mul_(kBeta1).add_(g, 1 - kBeta1);
      second_[i].mul_(kBeta2).addcmul_(g, g, 1 - kBeta2);
      if (plan_.fault == TrainFault::MomentsBf16)
        for (Tensor* m : {&first_[i], &second_[i]}) m->copy_(m->to(at::kBFloat16));
      if (weights_[i].dim() > 1) weights_[i].mul_(1 - told.rate * plan_.decay);
      weights_[i].addcdiv_(first_[i] / c1, (second_[i] / c2).sqrt_().add_(kEps), -told.rate);
    }
  }
};

}  // namespace
}  // namespace parity

// C linkage for dlsym; both sides are built by one compiler.
extern "C" void parity_train(const parity::TrainPlan& plan,
                             const std::function<void(const parity::TrainStep&)>& tell) {
  if (plan.device == "cuda" && !at::hasCUDA()) throw std::invalid_argument("no CUDA device here");
  at::globalContext().setDeterministicAlgorithms(true, false);
  at::globalContext().setAllowTF32CuBLAS(false);
  at::set_num_threads(1);  // small operations; and sums in one order
  parity::Trainer trainer(plan);
  for (std::int64_t step = plan.first; step < plan.last; ++step) tell(trainer.step(step));
  if (!plan.save.empty()) trainer.save();
}
