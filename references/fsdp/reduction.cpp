#include "references/fsdp/reduction.hpp"

#include <cmath>
#include <fmt/format.h>

namespace parity::fsdp {
namespace {

// f16 has little room: divide by a power of two near the root of the factor first, by the rest
// after.
double power_near_root(double factor) {
  double power = 1;
  while (std::fmod(factor, power) == 0 && factor / power > power) power *= 2;
  return power;
}

}  // namespace

int shard_ranks(const Config& config, int ranks) {
  if (config.replicas < 1 || ranks % config.replicas != 0)
    throw UsageError(fmt::format("{} replicas do not divide {} ranks", config.replicas, ranks));
  return ranks / config.replicas;
}

Divisors divisors(const Config& config, int ranks, Dtype reduce, std::string_view fault) {
  const double factor = config.divide_factor > 0 ? config.divide_factor : ranks;
  const double shards = ranks / config.replicas;
  Divisors by;
  if (reduce == Dtype::F16) {
    by.before = power_near_root(factor);
    by.after = factor / by.before;
  } else if (config.force_sum || ranks == 1) {
    by.after = factor;
  } else if (factor == ranks) {
    by = {.average = true, .scatter = shards};
  } else {
    throw UsageError(
        fmt::format("a divide factor of {} at {} ranks is a scaled sum, which gloo refuses; force "
                    "the plain sum",
                    factor, ranks));
  }
  if (fault == "P-fsdp-no-division") by = {};
  if (fault == "P-fsdp-division-twice") by.after *= ranks;
  return by;
}

}  // namespace parity::fsdp
