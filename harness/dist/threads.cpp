#include "harness/dist/threads.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <thread>

namespace parity::dist {
namespace {

// Where the ranks of one group meet: all arrive with their call and buffer, read, and leave.
struct Meeting {
  explicit Meeting(std::vector<int> who)
      : ranks(std::move(who)), calls(ranks.size()), data(ranks.size()), here(ranks.size(), false) {}
  std::vector<int> ranks;  // of the world
  std::vector<Call> calls;
  std::vector<const float*> data;
  std::vector<bool> here;
  std::size_t arrived = 0, left = 0;
  std::uint64_t opened = 0, closed = 0;  // meetings so far
  bool wrong = false;                    // their calls did not go together
};

// What all ranks share. One lock for everything: meetings are short, and the data is read outside.
struct World {
  World(int n, double patience) : gone(static_cast<std::size_t>(n)), patience_s(patience) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::vector<int>, std::unique_ptr<Meeting>> meetings;
  std::vector<std::string> gone;  // by rank: why it takes part no more; "" while it does
  std::string broken;             // why no collective can succeed any more
  double patience_s;

  Meeting& meeting(const std::vector<int>& ranks) {
    const std::lock_guard lock(mutex);
    std::unique_ptr<Meeting>& slot = meetings[ranks];
    if (!slot) slot = std::make_unique<Meeting>(ranks);
    return *slot;
  }
  void leave(int rank, const std::string& why) {
    const std::lock_guard lock(mutex);
    gone[static_cast<std::size_t>(rank)] = why;
    changed.notify_all();
  }
  void break_off(const std::string& why) {
    if (broken.empty()) broken = why;
    changed.notify_all();
  }
};

std::string list(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

class ThreadRank final : public Communicator {
 public:
  ThreadRank(World& world, Meeting& meeting, int place, std::shared_ptr<Trace> trace)
      : Communicator(place, static_cast<int>(meeting.ranks.size()), std::move(trace)),
        world_(world),
        meeting_(meeting) {}

  std::unique_ptr<Communicator> group(const std::vector<int>& ranks) override {
    std::vector<int> members;
    int place = -1;
    for (const int r : ranks) {
      if (r == rank()) place = static_cast<int>(members.size());
      members.push_back(meeting_.ranks.at(static_cast<std::size_t>(r)));
    }
    if (place < 0) throw Failure(fmt::format("rank {} is not in the group it asks for", rank()));
    return std::make_unique<ThreadRank>(world_, world_.meeting(members), place, shared_trace());
  }

 protected:
  void exchange(const Call& call, std::span<const float> mine, const std::vector<Range>& wanted,
                const Reader& read) override {
    arrive(call, mine.data());
    std::vector<const float*> parts;
    for (const float* data : meeting_.data)
      parts.push_back(data + wanted[static_cast<std::size_t>(rank())].begin);
    read(parts);
    depart();
  }

 private:
  void arrive(const Call& call, const float* data) {
    std::unique_lock lock(world_.mutex);
    Meeting& m = meeting_;
    const auto place = static_cast<std::size_t>(rank());
    fail_if_broken();
    m.calls[place] = call;
    m.data[place] = data;
    m.here[place] = true;
    const std::uint64_t number = m.opened;
    if (++m.arrived == m.ranks.size()) {
      m.arrived = 0;
      m.left = 0;
      ++m.opened;
      m.here.assign(m.ranks.size(), false);
      if (const std::string why = mismatch(m.calls, m.ranks); !why.empty()) {
        m.wrong = true;
        world_.break_off(why);
      }
      world_.changed.notify_all();
    }
    wait(lock, call, [&] { return m.opened != number; });
  }

  // Nobody goes on while another still reads its buffer.
  void depart() {
    std::unique_lock lock(world_.mutex);
    Meeting& m = meeting_;
    const std::uint64_t number = m.closed;
    if (++m.left == m.ranks.size()) {
      ++m.closed;
      world_.changed.notify_all();
    }
    world_.changed.wait(lock, [&] { return m.closed != number; });
  }

  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, const Call& call, const Done& done) {
    const auto patience = std::chrono::duration<double>(world_.patience_s);
    const auto ready = [&] { return done() || !world_.broken.empty() || !missing(true).empty(); };
    const bool came = world_.changed.wait_for(lock, patience, ready);
    // A meeting that opened goes on, whatever broke elsewhere: others read this rank's buffer.
    if (done() && !meeting_.wrong) return;
    if (!came)
      world_.break_off(fmt::format(
          "{} did not come within {} s; rank {} waits in {}", list(missing(false)),
          world_.patience_s, meeting_.ranks[static_cast<std::size_t>(rank())], sentence(call)));
    else if (world_.broken.empty()) {
      const std::vector<int> who = missing(true);
      world_.break_off(fmt::format("rank {} is gone ({}); rank {} waits in {}", who.front(),
                                   world_.gone[static_cast<std::size_t>(who.front())],
                                   meeting_.ranks[static_cast<std::size_t>(rank())],
                                   sentence(call)));
    }
    fail_if_broken();
  }

  void fail_if_broken() const {
    if (!world_.broken.empty()) throw CollectiveError(world_.broken);
  }

  // Members that have not arrived; only those that never will.
  std::vector<int> missing(bool gone) const {
    std::vector<int> who;
    for (std::size_t i = 0; i < meeting_.ranks.size(); ++i)
      if (!meeting_.here[i] &&
          (!gone || !world_.gone[static_cast<std::size_t>(meeting_.ranks[i])].empty()))
        who.push_back(meeting_.ranks[i]);
    return who;
  }

  World& world_;
  Meeting& meeting_;
};

}  // namespace

void run_threads(int ranks, const std::function<void(Communicator&)>& body,
                 const ThreadOptions& options) {
  if (ranks < 1) throw UsageError(fmt::format("{} ranks", ranks));
  World world(ranks, options.patience_s);
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  Meeting& meeting = world.meeting(all);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
  std::vector<std::string> own(static_cast<std::size_t>(ranks));  // died of itself, and of what

  const auto rank_body = [&](int r) {
    const auto at = static_cast<std::size_t>(r);
    ThreadRank communicator(world, meeting, r, std::make_shared<Trace>(Trace{.rank = r}));
    try {
      body(communicator);
      world.leave(r, "it has finished");
    } catch (const CollectiveError& e) {
      thrown[at] = std::current_exception();
      world.leave(r, e.what());
    } catch (const std::exception& e) {
      thrown[at] = std::current_exception();
      own[at] = e.what();
      world.leave(r, e.what());
    }
  };
  std::vector<std::thread> threads;
  for (int r = 1; r < ranks; ++r) threads.emplace_back(rank_body, r);
  rank_body(0);
  for (std::thread& thread : threads) thread.join();

  if (ranks > 1)
    for (std::size_t r = 0; r < own.size(); ++r)
      if (!own[r].empty()) throw CollectiveError(fmt::format("rank {}: {}", r, own[r]));
  for (const std::exception_ptr& e : thrown)
    if (e) std::rethrow_exception(e);
}

}  // namespace parity::dist
