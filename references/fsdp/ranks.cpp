#include "references/fsdp/ranks.hpp"

#include <cstring>
#include <fmt/format.h>

#include "harness/dist/mpi.hpp"
#include "harness/dist/threads.hpp"
#include "references/fsdp/bits.hpp"
#include "references/fsdp/training.hpp"

namespace parity::fsdp {
namespace {

Tensors inputs_of(const Launch& launch) {
  Tensors tensors;
  for (const TensorView& view : launch.inputs) {
    Tensor tensor = make_tensor(*view.spec);
    std::memcpy(tensor.bytes.data(), view.data, tensor.bytes.size());
    tensors.add(std::move(tensor));
  }
  return tensors;
}

void hand_over(const Launch& launch, const Tensors& results) {
  for (const TensorView& view : launch.outputs) {
    const Tensor& result = results.at(view.spec->name);
    std::memcpy(view.data, result.bytes.data(), result.bytes.size());
  }
}

int ranks_of(const Case& c) { return static_cast<int>(c.sizes["R"]); }

std::string refuses_mpi(const Case& c, const Options&) {
  const int there = dist::mpi_world().size();
  return ranks_of(c) <= there
             ? ""
             : fmt::format("needs {} ranks, mpirun started {}", ranks_of(c), there);
}

template <RankBody body>
void on_mpi(const Launch& launch) {
  launch_on_mpi(launch, body);
}

template <RankBody body>
KernelDef mpi_twin(std::string_view threads, std::string_view name) {
  KernelDef def = *registry().kernel(threads);
  def.name = name;
  def.what = "the same ranks as processes of MPI";
  def.refuses = refuses_mpi;
  def.forward = on_mpi<body>;
  def.backward = def.backward != nullptr ? on_mpi<body> : nullptr;
  return def;
}

}  // namespace

void launch_on_threads(const Launch& launch, RankBody body) {
  const Tensors inputs = inputs_of(launch);
  Tensors results;
  dist::run_threads(ranks_of(launch.problem), [&](dist::Communicator& world) {
    Tensors mine = body(launch.problem, inputs, world, launch.fault);
    if (world.rank() == 0) results = std::move(mine);
  });
  hand_over(launch, results);
}

void launch_on_mpi(const Launch& launch, RankBody body) {
  dist::Communicator& world = dist::mpi_world();
  const int R = ranks_of(launch.problem);
  std::vector<int> ranks;
  for (int r = 0; r < R; ++r) ranks.push_back(r);
  Tensors results;
  if (world.rank() < R) {
    const auto group = world.group(ranks);
    results = body(launch.problem, inputs_of(launch), *group, launch.fault);
  } else {
    for (const TensorView& view : launch.outputs) results.add(make_tensor(*view.spec));
  }
  if (R < world.size())
    for (const TensorView& view : launch.outputs) {
      Tensor& tensor = *results.find(view.spec->name);
      std::vector<float> values = floats(tensor);
      world.broadcast(values, 0, {.unit = tensor.spec.name, .phase = "hand over"});
      tensor = make_tensor(tensor.spec, std::vector<double>(values.begin(), values.end()));
    }
  hand_over(launch, results);
}

void register_mpi_kernels() {
  static const Register training{mpi_twin<train_sharded>("fsdp.threads", "fsdp.mpi")};
  static const Register sums{mpi_twin<sums_of_rank>("collective.threads", "collective.mpi")};
}

}  // namespace parity::fsdp
