// parity train DIR: a small deterministic training run on LibTorch, logged for `parity drift`.
#include "harness/torch/train.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

#include "golden/io/event_writer.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/train_text.hpp"
#include "harness/cli/verb.hpp"
#include "harness/environment.hpp"
#include "harness/failure.hpp"
#include "references/checkpoint/inventory.hpp"
#include "reports/json_writer.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;

struct Given {
  std::string out = {}, model = "small", fault = "none", linears = "f32", resume = {}, save = {},
              device = "cpu";
  int steps = 100, batch = 4, length = 64;
  std::int64_t seed = 1, noise = 0, until = 0;
  double rate = 2e-3;
} given;

struct FaultName {
  const char* name;
  TrainFault fault;
};
constexpr std::array<FaultName, 9> kFaults = {{{"none", TrainFault::None},
                                               {"lr_up_half_percent", TrainFault::RateUp},
                                               {"layer1_grad_x1p01", TrainFault::LayerGradient},
                                               {"expert_grad_halved", TrainFault::ExpertGradient},
                                               {"no_clipping", TrainFault::NoClipping},
                                               {"optimizer_state_bf16", TrainFault::MomentsBf16},
                                               {"loss_over_padding", TrainFault::PaddingLoss},
                                               {"router_bias_dropped", TrainFault::RouterBias},
                                               {"stale_kda_state", TrainFault::StaleState}}};

std::vector<std::string> fault_names() {
  std::vector<std::string> names;
  for (const FaultName& f : kFaults) names.emplace_back(f.name);
  return names;
}

// Bytes as tokens, a layer with full attention, one dense and three with experts.
checkpoint::ModelSizes small_model() {
  return {.name = "small",
          .layers = 4,
          .D = 64,
          .V = 256,
          .H = 2,
          .full_attention = {3},
          .q_lora = 32,
          .kv_lora = 16,
          .nope = 16,
          .rope = 8,
          .v_head = 16,
          .kda_head = 16,
          .conv = 4,
          .dense_F = 128,
          .E = 4,
          .latent = 32,
          .expert_F = 64,
          .shared_F = 64};
}

// As it was first published, with 100,051,368 parameters; the last layer became one with full
// attention later.
checkpoint::ModelSizes first_debug_model() {
  checkpoint::ModelSizes m = checkpoint::debug_model();
  m.full_attention = {3, 7, 11};
  return m;
}

TrainPlan plan_of() {
  const checkpoint::ModelSizes m = given.model == "small" ? small_model() : first_debug_model();
  TrainPlan plan{.prefix = m.vision.layers > 0 ? "language_model." : "",
                 .layers = m.layers,
                 .heads = m.H,
                 .q_nope = m.nope,
                 .q_rope = m.rope,
                 .v_head = m.v_head,
                 .kda_head = m.kda_head,
                 .experts = m.E,
                 .dense = m.dense_layers,
                 .block = given.model == "small" ? 2 : 12,
                 .vocabulary = m.V,
                 .batch = given.batch,
                 .length = given.length,
                 .steps = given.steps,
                 .last = given.until > 0 ? given.until : given.steps,
                 .rate = given.rate,
                 .data_seed = static_cast<std::uint64_t>(given.seed),
                 .noise_seed = static_cast<std::uint64_t>(given.noise),
                 .linears = given.linears,
                 .device = given.device,
                 .resume = given.resume,
                 .save = given.save};
  plan.warm_up = std::max(1.0, given.steps / 10.0);
  plan.fault = std::ranges::find(kFaults, given.fault, &FaultName::name)->fault;
  for (std::int64_t l = 0; l < m.layers; ++l) plan.full.push_back(m.is_full_attention(l));
  for (const checkpoint::StoredTensor& t : checkpoint::inventory(m))
    plan.parameters.push_back({t.name, t.shape, t.parameters > 0});
  plan.text = [length = plan.length, seed = plan.data_seed](std::int64_t index) {
    return made_text(seed, index, length);
  };
  return plan;
}

TrainFunction load() {
  const std::string library = torch_library_path();
  void* handle = library.empty() ? nullptr : ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle)
    throw UsageError("train needs LibTorch, which this build is without (ci/setup fetches it)");
  void* symbol = ::dlsym(handle, kTrainSymbol);
  if (!symbol) throw Failure(library + " has no " + kTrainSymbol);
  return reinterpret_cast<TrainFunction>(symbol);
}

// The step after the last one in a log that this run continues.
std::int64_t steps_before(const std::string& checkpoint) {
  std::ifstream in(checkpoint, std::ios::binary);
  std::array<std::int64_t, 2> head{};
  in.read(reinterpret_cast<char*>(head.data()), sizeof head);
  if (!in) throw UsageError(checkpoint + ": is no checkpoint");
  return head[1];
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

int train(const Arguments& args) {
  TrainPlan plan = plan_of();
  if (!plan.resume.empty()) plan.first = steps_before(plan.resume);
  if (plan.first >= plan.last) throw UsageError("there is no step left to do");
  const TrainFunction run = load();
  fs::create_directories(given.out);
  const fs::path log = fs::path(given.out) / "log.jsonl";
  std::ofstream out(log, plan.first > 0 ? std::ios::app : std::ios::out);
  io::EventWriter events(given.out, now());
  std::int64_t parameters = 0;
  for (const TrainParameter& p : plan.parameters) {
    std::int64_t elements = p.trained ? 1 : 0;
    for (const std::int64_t extent : p.shape) elements *= extent;
    parameters += elements;
  }
  complain(fmt::format("{} model, {} parameters, steps {} to {}", given.model, parameters,
                       plan.first, plan.last - 1));
  TrainStep last;
  try {
    run(plan, [&](const TrainStep& step) {
      last = step;
      std::vector<std::pair<std::string, double>> scalars = {{"loss", step.loss},
                                                             {"grad_norm", step.grad_norm},
                                                             {"lr", step.rate},
                                                             {"tokens_per_s", step.tokens_per_s}};
      std::size_t norm = 0;
      for (const TrainParameter& p : plan.parameters)
        if (p.trained) scalars.emplace_back("grad_norm/" + p.name, step.norms.at(norm++));
      reports::JsonWriter line;
      line.begin_object().field("step", step.step);
      for (const auto& [key, value] : scalars) line.field(key, value);
      out << line.end_object().text() << '\n' << std::flush;
      if (!out) throw UsageError(log.string() + ": cannot be written");
      events.write(step.step, now(), scalars);
      if (args.verbose)
        complain(fmt::format("step {}  loss {:.5f}  grad norm {:.4f}  {:.0f} tokens/s", step.step,
                             step.loss, step.grad_norm, step.tokens_per_s));
    });
  } catch (const std::invalid_argument& error) {
    throw DeviceAbsent(error.what());
  }
  print(fmt::format("{}: step {}, loss {:.9g}, grad norm {:.9g}\n", log.string(), last.step,
                    last.loss, last.grad_norm));
  return 0;
}

const RegisterVerb verb{{
    .path = "train",
    .what = "A small deterministic training run, logged for `parity drift` (needs LibTorch)",
    .examples = "  for i in $(seq 8); do parity train ref_$i --noise $i; done\n"
                "  parity train new --noise 9 --fault layer1_grad_x1p01\n"
                "  parity drift new/log.jsonl ref_*/log.jsonl --alpha 0.125",
    .options =
        {{.names = "out",
          .type = "DIR",
          .to = &given.out,
          .what = "Where log.jsonl and the TensorBoard events go",
          .required = true},
         {.names = "--model",
          .type = "NAME",
          .to = &given.model,
          .what = "small, or debug with 13 layers and 100 million parameters",
          .words = {"small", "debug"}},
         {.names = "--steps",
          .type = "N",
          .to = &given.steps,
          .what = "Steps of the schedule",
          .least = 1,
          .most = 1e7},
         {.names = "--until",
          .type = "STEP",
          .to = &given.until,
          .what = "Stop before this step",
          .least = 1,
          .most = 1e7},
         {.names = "--batch",
          .type = "N",
          .to = &given.batch,
          .what = "Sequences a step",
          .least = 1,
          .most = 4096},
         {.names = "--length",
          .type = "N",
          .to = &given.length,
          .what = "Tokens a sequence",
          .least = 2,
          .most = 65536},
         {.names = "--rate",
          .type = "LR",
          .to = &given.rate,
          .what = "Peak learning rate",
          .least = 0,
          .most = 1},
         {.names = "--data-seed",
          .type = "N",
          .to = &given.seed,
          .what = "Text and initial weights",
          .least = 0,
          .most = 1e15},
         {.names = "--noise",
          .type = "N",
          .to = &given.noise,
          .what = "Member of an ensemble: one ulp up or down on each initial weight; 0: none",
          .least = 0,
          .most = 1e15},
         {.names = "--fault",
          .type = "ID",
          .to = &given.fault,
          .what = "A mistake to make",
          .words = fault_names()},
         {.names = "--linears",
          .type = "FORMAT",
          .to = &given.linears,
          .what =
              "Format in which linear maps hold their weights; the last layers stay as they are",
          .words = {"f32", "bf16", "fp8", "mxfp8", "nvfp4"}},
         {.names = "--device-type",
          .type = "NAME",
          .to = &given.device,
          .what = "cpu or cuda",
          .words = {"cpu", "cuda"}},
         {.names = "--save",
          .type = "FILE",
          .to = &given.save,
          .what = "Write a checkpoint at the end"},
         {.names = "--continue",
          .type = "FILE",
          .to = &given.resume,
          .what = "Go on from a checkpoint, with the same options"}},
    .call = train,
}};

}  // namespace
}  // namespace parity::cli
