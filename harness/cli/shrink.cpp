#include "harness/cli/shrink.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

#include "harness/reduced.hpp"

namespace parity::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kManyInputs = 12;  // of more, only all together are made simpler
// From the simplest on.
constexpr std::array kValues = {Simpler::Zero, Simpler::One,   Simpler::Sign,
                                Simpler::Int,  Simpler::Power, Simpler::First};

class Shrinker {
 public:
  Shrinker(const Case& start, const std::function<bool(const Case&)>& fails,
           const std::function<std::vector<std::string>(const Case&)>& inputs,
           const ShrinkLimits& limits)
      : fails_(fails), inputs_(inputs), limits_(limits), best_(start) {}

  Shrunk run() {
    known_[best_.id()] = true;
    for (bool again = true; again && within();) {
      again = false;
      again |= sizes();
      again |= values();
      again |= options();
    }
    return {.problem = best_, .trials = trials_, .complete = within()};
  }

 private:
  bool within() const {
    const std::chrono::duration<double> spent = Clock::now() - start_;
    return trials_ < limits_.trials && spent.count() < limits_.seconds;
  }
  // Keeps the case where it fails.
  bool keep(const Case& smaller) {
    if (!within()) return false;
    const auto [at, fresh] = known_.emplace(smaller.id(), false);
    if (fresh) {
      ++trials_;
      at->second = fails_(smaller);
    }
    if (at->second) best_ = smaller;
    return at->second;
  }

  bool sizes() {
    bool any = false;
    std::vector<Size> largest = best_.sizes.list();
    std::ranges::stable_sort(largest, std::greater{}, &Size::extent);
    for (const Size& size : largest)
      any |= size.parts.empty() ? extent(size.name) : parts(size.name);
    return any;
  }
  bool with_extent(const std::string& name, std::int64_t extent) {
    Case smaller = best_;
    smaller.sizes.set({name, extent, {}});
    return keep(smaller);
  }
  // The least extent of a coarse list that fails, then the least above the one before it.
  bool extent(const std::string& name) {
    const std::int64_t from = best_.sizes[name];
    std::int64_t below = 0;
    for (std::int64_t n = 1; n < from; n += std::max<std::int64_t>(1, n / 2)) {
      if (with_extent(name, n)) break;
      below = n;
    }
    for (bool again = true; again;) {
      const std::int64_t middle = (below + best_.sizes[name]) / 2;
      again = middle > below && middle < best_.sizes[name];
      if (again && !with_extent(name, middle)) below = middle;
    }
    return best_.sizes[name] < from;
  }
  bool with_parts(const std::string& name, const std::vector<std::int64_t>& parts) {
    std::int64_t sum = 0;
    for (const std::int64_t part : parts) sum += part;
    Case smaller = best_;
    smaller.sizes.set({name, sum, parts});
    return keep(smaller);
  }
  bool parts(const std::string& name) {
    bool any = false;
    for (std::size_t i = 0; i < best_.sizes.find(name)->parts.size();) {
      std::vector<std::int64_t> fewer = best_.sizes.find(name)->parts;
      if (fewer.size() < 2) break;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (with_parts(name, fewer))
        any = true;
      else
        ++i;
    }
    for (std::size_t i = 0; i < best_.sizes.find(name)->parts.size(); ++i) {
      const std::vector<std::int64_t> whole = best_.sizes.find(name)->parts;
      for (std::int64_t n = 0; n < whole[i]; n += std::max<std::int64_t>(1, n / 2)) {
        std::vector<std::int64_t> shorter = whole;
        shorter[i] = n;
        if (!with_parts(name, shorter)) continue;
        any = true;
        break;
      }
    }
    return any;
  }

  bool with_values(const std::string& tensor, Simpler how) {
    ReducedFill fill = ReducedFill::parse(best_.fill);
    const Simpler before = fill.of(tensor);
    if (before != Simpler::No && before <= how) return false;  // it is as simple already
    std::string key = tensor;
    std::ranges::replace(key, '/', '.');
    fill.tensors[key] = how;
    Case simpler = best_;
    simpler.fill = fill.str();
    return keep(simpler);
  }
  bool values() {
    bool any = false;
    const auto simplest = [&](const std::string& tensor) {
      for (const Simpler how : kValues)
        if (with_values(tensor, how)) return true;
      return false;
    };
    const std::vector<std::string> inputs = inputs_(best_);
    if (inputs.size() > kManyInputs) return simplest("*");
    for (const std::string& tensor : inputs) any |= simplest(tensor);
    return any;
  }

  bool options() {
    bool any = false;
    const Options before = best_.options;
    for (const auto& [name, value] : before.map()) {
      Case simpler = best_;
      simpler.options = {};
      for (const auto& [other, kept] : best_.options.map())
        if (other != name) simpler.options.set(other, kept);
      any |= keep(simpler);
    }
    if (best_.seed != 0) {
      Case first = best_;
      first.seed = 0;
      any |= keep(first);
    }
    return any;
  }

  const std::function<bool(const Case&)>& fails_;
  const std::function<std::vector<std::string>(const Case&)>& inputs_;
  ShrinkLimits limits_;
  Case best_;
  std::map<std::string, bool> known_ = {};
  int trials_ = 0;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

Shrunk shrink(const Case& start, const std::function<bool(const Case&)>& fails,
              const std::function<std::vector<std::string>(const Case&)>& inputs,
              const ShrinkLimits& limits) {
  return Shrinker(start, fails, inputs, limits).run();
}

}  // namespace parity::cli
