// Proof that the gate can fail: the faults of the catalogue through the same cases and bounds, and
// sound variants beside them, which must not fail. Truth, base and floor of a case are computed
// once, by its child, for all of them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <set>
#include <sys/mman.h>

#include "harness/failure.hpp"
#include "harness/mutants.hpp"
#include "harness/worker.hpp"

namespace parity {
namespace {

// Counters that the children of all subjects and this process share.
class SharedCounters {
 public:
  explicit SharedCounters(std::size_t n) : size_(n * sizeof(Counter)) {
    if (size_ == 0) return;
    void* memory =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Failure("no shared memory for the kill table");
    counters_ = static_cast<Counter*>(memory);
  }
  ~SharedCounters() {
    if (counters_) ::munmap(counters_, size_);
  }
  SharedCounters(const SharedCounters&) = delete;
  SharedCounters& operator=(const SharedCounters&) = delete;
  void add(std::size_t i) { counters_[i].fetch_add(1); }
  std::uint32_t get(std::size_t i) const { return counters_[i].load(); }

 private:
  using Counter = std::atomic<std::uint32_t>;
  static_assert(Counter::is_always_lock_free);
  std::size_t size_;
  Counter* counters_ = nullptr;
};

bool kills(const CaseRecord& r) {
  if (r.status == name(Status::Fail)) return true;
  // A kernel that dies of its fault is caught as well; a harness that breaks has caught nothing.
  return r.status == name(Status::Error) && r.error_kind != "harness";
}

// The largest excess of the view that decided: observed over limit.
double margin_of(const CaseRecord& r) {
  double margin = 0;
  bool found = false;
  for (const TensorRecord& t : r.tensors)
    for (const ViewResult& v : t.views) {
      if (v.ok || v.view != r.view) continue;
      found = true;
      const double ratio = v.limit > 0 && !std::isnan(v.value)
                               ? v.value / v.limit
                               : std::numeric_limits<double>::infinity();
      margin = std::max(margin, ratio);
    }
  return found ? margin : std::numeric_limits<double>::infinity();
}

bool selected(const Mutant& m, const std::string& glob) {
  const MutantRecord& r = m.record;
  return glob_match(glob, r.id) || glob_match(glob, r.fault) ||
         (!r.alias.empty() && glob_match(glob, r.alias)) || glob_match(glob, r.op) ||
         (m.kernel && glob_match(glob, m.kernel->name));
}

class KillTable {
 public:
  KillTable(const MutateOptions& options, std::vector<Mutant> mutants, std::vector<Case> cases)
      : options_(options),
        mutants_(std::move(mutants)),
        cases_(std::move(cases)),
        planner_(registry(), cases_, options),
        killed_(mutants_.size()),
        tries_(mutants_.size()) {}

  MutationReport run(const ShowProgress& show) {
    SuiteOptions suite = options_.suite;
    suite.details = false;
    suite.waive = false;  // a waiver covers a kernel that fails, not a gate that is blind
    suite.finished.clear();
    SuiteHooks hooks;
    hooks.wanted = [this](std::size_t s, std::size_t c) { return wanted(s, c); };
    hooks.finished = [this](std::size_t s, std::size_t c, const CaseRecord& r) {
      finished(s, c, r);
    };
    hooks.arrived = [this](std::size_t s, std::size_t c, const CaseRecord& r) { arrived(s, c, r); };
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t done = 0; !cases_.empty();) {
      const std::vector<Case> batch = next_batch();
      plan_ = planner_.plan(mutants_, batch);
      passed_.clear();
      const auto total = static_cast<std::int64_t>(done + batch.size() + cases_.size());
      const ShowProgress part = [&](const Progress& p) {
        const double share = static_cast<double>(p.done) / static_cast<double>(p.total);
        const double cases = static_cast<double>(done) + share * static_cast<double>(batch.size());
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
        show({static_cast<std::int64_t>(cases), total, p.current,
              spent.count() * (static_cast<double>(total) - cases) / std::max(cases, 0.1)});
      };
      run_suite(plan_.subjects, suite, hooks, {}, show ? part : ShowProgress{});
      done += batch.size();
    }
    return report();
  }

 private:
  struct Kills {
    int visits = 0, kills = 0;
  };
  struct Tries {
    int made = 0;
    bool judged = false;       // its clean twin, somewhere
    std::string refused = {};  // why not
    void twin(const CaseRecord& r) {
      if (r.status != name(Status::Unsupported))
        judged = true;
      else if (refused.empty())
        refused = r.reason;
    }
  };
  static std::string fill_of(const Case& c) { return c.op + "/" + c.fill; }

  // Cases whose fill has killed most per visit come first; a fill that was not tried yet before all
  // of them. Batches are small, because every child starts with what is planned in its memory.
  std::vector<Case> next_batch() {
    constexpr std::size_t kBatch = 64;
    const auto promise = [&](const Case& c) {
      const Kills& k = fills_[fill_of(c)];
      return k.visits == 0 ? std::numeric_limits<double>::infinity()
                           : static_cast<double>(k.kills) / k.visits;
    };
    std::vector<Case> batch;
    while (batch.size() < kBatch && !cases_.empty()) {
      const auto best = std::ranges::max_element(cases_, {}, promise);
      ++fills_[fill_of(*best)].visits;
      batch.push_back(std::move(*best));
      cases_.erase(best);
    }
    return batch;
  }

  // In the child: a mutant that is alive, on a case that its clean twin has passed.
  bool wanted(std::size_t s, std::size_t c) const {
    const MutationPlan::Slot& slot = plan_.slots[s][c];
    if (slot.clean) return true;
    const auto twin = passed_.find({s, slot.twin});
    if (twin == passed_.end() || !twin->second) return false;
    return std::ranges::any_of(slot.mutants, [&](std::size_t m) { return killed_.get(m) == 0; });
  }
  void finished(std::size_t s, std::size_t c, const CaseRecord& r) {
    const MutationPlan::Slot& slot = plan_.slots[s][c];
    if (slot.clean) passed_[{s, c}] = r.status == name(Status::Pass);
    if (!slot.clean && kills(r))
      for (const std::size_t m : slot.mutants) killed_.add(m);
  }

  // In this process.
  void arrived(std::size_t s, std::size_t c, const CaseRecord& r) {
    const std::vector<MutationPlan::Slot>& slots = plan_.slots[s];
    const MutationPlan::Slot& slot = slots[c];
    if (slot.clean) {
      passed_[{s, c}] = r.status == name(Status::Pass);  // for a child that has to be replaced
      for (const MutationPlan::Slot& other : slots)
        if (!other.clean && other.twin == c)
          for (const std::size_t m : other.mutants) tries_[m].twin(r);
      return arrived_clean(r);
    }
    if (r.status == name(Status::Unsupported)) return;  // as its twin was
    for (const std::size_t m : slot.mutants) {
      MutantRecord& mutant = mutants_[m].record;
      ++tries_[m].made;
      if (!mutant.status.empty() || !kills(r)) continue;
      killed_.add(m);
      mutant.status = "killed";
      mutant.case_id = r.id;
      mutant.view = r.view.empty() ? r.error_kind : r.view;
      mutant.reason = r.reason;
      mutant.margin = margin_of(r);
      ++fills_[fill_of(plan_.subjects[s].problem)].kills;
    }
  }
  void arrived_clean(const CaseRecord& r) {
    const bool failed = r.status == name(Status::Fail);
    if (r.status == name(Status::Error))
      report_.exit = worse_exit(report_.exit, r.error_kind == "harness" ? 2 : 3);
    if (r.check == name(Check::Bitwise) || (r.status != name(Status::Pass) && !failed)) return;
    ++report_.summary.clean;
    if (!failed) return;
    ++report_.summary.false_alarms;
    report_.false_alarm_ids.push_back(r.id + ": " + r.reason);
  }

  MutationReport report() {
    for (std::size_t m = 0; m < mutants_.size(); ++m) {
      MutantRecord& r = mutants_[m].record;
      if (r.status.empty()) {
        const Tries& tries = tries_[m];
        std::string never = planner_.never(m);
        if (never.empty() && !tries.judged) never = tries.refused;
        r.status =
            tries.made == 0 && !never.empty() && never != kNoCase ? "unsupported" : "survived";
        r.reason = tries.made > 0  ? fmt::format("passed all {} tries", tries.made)
                   : never.empty() ? "its clean twin passes in no case of this lane"
                                   : never;
      }
      ++(r.status == "killed"     ? report_.summary.killed
         : r.status == "survived" ? report_.summary.survived
                                  : report_.summary.unsupported);
      report_.mutants.push_back(r);
    }
    const MutationSummary& sum = report_.summary;
    const bool proven = sum.killed > 0 && sum.survived == 0 && sum.false_alarms == 0 &&
                        sum.clean >= options_.clean_minimum;
    report_.exit = worse_exit(report_.exit, proven ? 0 : 4);
    std::ranges::sort(report_.false_alarm_ids);
    return report_;
  }

  const MutateOptions& options_;
  std::vector<Mutant> mutants_;
  std::vector<Case> cases_;  // not tried yet
  MutationPlanner planner_;
  SharedCounters killed_;
  std::vector<Tries> tries_;
  MutationPlan plan_ = {};  // of the batch
  std::map<std::string, Kills> fills_ = {};
  std::map<std::pair<std::size_t, std::size_t>, bool> passed_ = {};
  MutationReport report_ = {.exit = 0};
};

}  // namespace

MutationReport mutate(const MutateOptions& given, const ShowProgress& progress) {
  MutateOptions options = given;
  std::vector<Mutant> mutants = mutants_of(registry(), options.elsewhere);
  std::vector<Case> cases = expand(registry(), options.lane);
  // Drift has mutants of its own; recordings and goldens have no kernel to switch.
  std::erase_if(cases, [](const Case& c) {
    return c.check != Check::Parity && c.check != Check::Exact && c.check != Check::Bitwise &&
           c.check != Check::Sharded;
  });
  if (options.only != "*") {
    if (std::ranges::any_of(mutants, [&](const Mutant& m) { return selected(m, options.only); }))
      std::erase_if(mutants, [&](const Mutant& m) { return !selected(m, options.only); });
    else
      std::erase_if(cases, [&](const Case& c) { return !glob_match(options.only, c.id()); });
    // The minimum over everything means nothing for a part; the one of an op still does.
    std::set<std::string> ops;
    for (const Case& c : cases) ops.insert(c.op);
    std::erase_if(mutants, [&](const Mutant& m) { return !ops.contains(m.record.op); });
    options.clean_minimum = std::min(options.clean_minimum, options.clean_minimum_per_op);
  }
  std::set<std::string> ops;
  for (const Mutant& m : mutants) ops.insert(m.record.op);
  std::erase_if(cases, [&](const Case& c) { return !ops.contains(c.op); });
  return KillTable(options, std::move(mutants), std::move(cases)).run(progress);
}

}  // namespace parity
