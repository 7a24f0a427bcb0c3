// Small training runs on LibTorch, as plain data: the command line fills a plan, the library that
// is loaded on demand runs it and tells each step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace parity {

struct TrainParameter {
  std::string name = {};
  std::vector<std::int64_t> shape = {};
  bool trained = true;  // false: the router's correction bias, which no gradient moves
};

// What may be wrong with a run.
enum class TrainFault {
  None,
  RateUp,          // learning rate x 1.005
  LayerGradient,   // gradients of layer 1 x 1.01
  ExpertGradient,  // gradients of the experts x 0.5
  NoClipping,
  MomentsBf16,  // Adam's moments stored in bf16
  PaddingLoss,  // loss divided by the padding too
  RouterBias,   // the router's correction bias is dropped
  StaleState,   // the KDA state runs on across sequences
};

struct TrainPlan {
  std::vector<TrainParameter> parameters = {};
  // Sizes, as harness and references/checkpoint call them.
  std::string prefix = {};  // of the names of the language model
  std::int64_t layers = 0, heads = 0, q_nope = 0, q_rope = 0, v_head = 0, kda_head = 0, experts = 0,
               choices = 2, dense = 1, block = 12, vocabulary = 256;
  std::vector<bool> full = {};  // by layer: MLA, else KDA

  std::int64_t batch = 4, length = 64;  // sequences a step, tokens a sequence
  std::int64_t steps = 100, first = 0;  // of the schedule; where this run begins
  std::int64_t last = 0;                // exclusive
  double rate = 2e-3, warm_up = 10, clip = 1, decay = 0.1;
  std::uint64_t data_seed = 1;   // of the text and the initial weights
  std::uint64_t noise_seed = 0;  // 0: none; else one fp32 ulp up or down on each initial weight
  std::string linears = "f32";  // weights of linear maps as bf16, fp8, mxfp8, nvfp4 would have them
  std::string device = "cpu";   // "cuda"
  TrainFault fault = TrainFault::None;
  std::string resume = {},
              save = {};  // checkpoints: read before the first step, written after the last

  // Tokens of sequence `index` of the whole run, length + 1 of them; what lies behind its end is
  // -1.
  std::function<std::vector<std::int64_t>(std::int64_t index)> text = {};
};

struct TrainStep {
  std::int64_t step = 0;
  double loss = 0, grad_norm = 0, rate = 0, tokens_per_s = 0;
  std::vector<double> norms = {};  // of the gradients, by trained parameter
};

// Under this name in the library. Trouble is thrown as std::exception; a device that is not there
// as std::invalid_argument.
using TrainFunction = void (*)(const TrainPlan&, const std::function<void(const TrainStep&)>&);
inline constexpr const char* kTrainSymbol = "parity_train";

}  // namespace parity
