#include "kernels/emulated/machine.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <ucontext.h>
#include <utility>

#include "harness/failure.hpp"

#if defined(__SANITIZE_ADDRESS__)
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* size);
void __asan_unpoison_memory_region(const volatile void* at, std::size_t size);
}
#endif

namespace parity::emulated {
namespace {

// AddressSanitizer is told which stack runs, and that a new fiber's has no frames of an old one's.
#if defined(__SANITIZE_ADDRESS__)
void before_switch(void** fake, const void* bottom, std::size_t size) {
  __sanitizer_start_switch_fiber(fake, bottom, size);
}
void after_switch(void* fake, const void** bottom, std::size_t* size) {
  __sanitizer_finish_switch_fiber(fake, bottom, size);
}
void fresh_stack(const void* bottom, std::size_t size) {
  __asan_unpoison_memory_region(bottom, size);
}
#else
void before_switch(void**, const void*, std::size_t) {}
void after_switch(void*, const void**, std::size_t*) {}
void fresh_stack(const void*, std::size_t) {}
#endif

constexpr int kWarp = 32;
constexpr std::size_t kStackBytes = std::size_t{256} << 10;  // touched as far as it is used
constexpr std::size_t kMostShared = std::size_t{227} << 10;  // of a block of sm_100

thread_local Machine* running_machine = nullptr;

}  // namespace

// One context for each thread of the block, and that of run().
struct Machine::Fibers {
  struct Fiber {
    ucontext_t context = {};
    std::unique_ptr<std::byte[]> stack = {};
    const std::function<bool()>* waits = nullptr;
    bool finished = false;
    void* fake_stack = nullptr;  // AddressSanitizer's
  };
  std::vector<std::unique_ptr<Fiber>> all = {};
  ucontext_t home = {};
  void* home_fake_stack = nullptr;
  const void* home_bottom = nullptr;
  std::size_t home_size = 0;
  const std::function<void()>* body = nullptr;
  std::exception_ptr thrown = {};

  Fiber& at(int thread) { return *all[static_cast<std::size_t>(thread)]; }
  void run(Fiber& fiber) {
    before_switch(&home_fake_stack, fiber.stack.get(), kStackBytes);
    swapcontext(&home, &fiber.context);
    after_switch(home_fake_stack, nullptr, nullptr);
  }
  void leave(Fiber& fiber) {  // back to run()
    before_switch(fiber.finished ? nullptr : &fiber.fake_stack, home_bottom, home_size);
    swapcontext(&fiber.context, &home);
    after_switch(fiber.fake_stack, &home_bottom, &home_size);
  }
  // Where a fiber begins: the machine is the one that runs.
  static void enter() {
    Machine& m = current();
    Fibers& f = *m.fibers_;
    after_switch(nullptr, &f.home_bottom, &f.home_size);
    try {
      (*f.body)();
    } catch (...) {
      f.thrown = std::current_exception();
    }
    Fiber& mine = f.at(m.running_);
    mine.finished = true;
    f.leave(mine);
  }
  void prepare(int threads) {
    while (all.size() < static_cast<std::size_t>(threads)) {
      all.push_back(std::make_unique<Fiber>());
      all.back()->stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
    }
    for (int i = 0; i < threads; ++i) {
      Fiber& fiber = at(i);
      fresh_stack(fiber.stack.get(), kStackBytes);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, &Fibers::enter, 0);
      fiber.waits = nullptr;
      fiber.finished = false;
    }
    thrown = nullptr;
  }
};

Machine::Machine() : fibers_(std::make_unique<Fibers>()) {}
Machine::~Machine() = default;

Machine& Machine::current() {
  if (running_machine == nullptr) throw Failure("an instruction of a GPU outside of a kernel");
  return *running_machine;
}

void Machine::start(const Block& block) {
  if (block.shared_bytes > kMostShared) throw Failure("a block has no so much shared memory");
  block_ = block;
  shared_.assign(block.shared_bytes, 0xFF);
  tensor_.assign(static_cast<std::size_t>(kTensorLanes * kTensorColumns), 0xFFFFFFFF);
  tensor_columns_ = 0;
  barriers_.clear();
  for (const Queue q : {Queue::Copies, Queue::Tensor}) {
    pending_[static_cast<std::size_t>(q)].clear();
    done_[static_cast<std::size_t>(q)] = 0;
  }
  warps_.assign(static_cast<std::size_t>((block.threads + kWarp - 1) / kWarp), Meeting{});
  at_sync_ = 0;
  syncs_ = 0;
}

void Machine::run(const Block& block, const std::function<void()>& body) {
  start(block);
  Fibers& f = *fibers_;
  f.body = &body;
  f.prepare(block.threads);
  Machine* const outer = std::exchange(running_machine, this);
  struct Restore {
    Machine* outer;
    ~Restore() { running_machine = outer; }
  } const restore{outer};
  for (int left = block.threads; left > 0;) {
    bool moved = false;
    for (running_ = 0; running_ < block.threads; ++running_) {
      Fibers::Fiber& fiber = f.at(running_);
      if (fiber.finished || (fiber.waits != nullptr && !(*fiber.waits)())) continue;
      f.run(fiber);
      moved = true;
      if (f.thrown) std::rethrow_exception(f.thrown);
      if (fiber.finished) --left;
    }
    if (!moved && !do_one_pending())
      throw Failure("hang: " + std::to_string(left) + " threads of block " +
                    std::to_string(block.number) + " wait for what never happens");
  }
  while (do_one_pending()) {
  }
  if (tensor_columns_ != 0) throw Failure("tensor memory was not given back");
}

void Machine::wait_until(const std::function<bool()>& holds) {
  if (holds()) return;
  Fibers::Fiber& mine = fibers_->at(running_);
  mine.waits = &holds;
  fibers_->leave(mine);
  mine.waits = nullptr;
}

void Machine::sync_threads() {
  const std::uint64_t mine = syncs_;
  if (++at_sync_ == block_.threads) {
    at_sync_ = 0;
    ++syncs_;
  }
  wait_until([&] { return syncs_ != mine; });
}

void Machine::meet(const void* registers,
                   const std::function<void(const void* const* lanes)>& work) {
  const int warp = running_ / kWarp;
  Meeting& meeting = warps_[static_cast<std::size_t>(warp)];
  const int lanes = std::min(kWarp, block_.threads - warp * kWarp);
  meeting.lanes.resize(static_cast<std::size_t>(lanes));
  meeting.lanes[static_cast<std::size_t>(running_ % kWarp)] = registers;
  const std::uint64_t mine = meeting.held;
  if (++meeting.present == lanes) {
    work(meeting.lanes.data());
    meeting.present = 0;
    ++meeting.held;
  }
  wait_until([&] { return meeting.held != mine; });
}

// ---- asynchronous work

void Machine::later(Queue queue, std::function<void()> work) {
  pending_[static_cast<std::size_t>(queue)].push_back(std::move(work));
}

bool Machine::do_one_pending() {
  const std::size_t first = block_.number % 2 == 0 ? 0 : 1;
  for (const std::size_t q : {first, 1 - first}) {
    if (done_[q] == pending_[q].size()) continue;
    const std::function<void()> work = std::move(pending_[q][done_[q]++]);
    work();
    return true;
  }
  return false;
}

// ---- barriers

Machine::Barrier& Machine::barrier(std::uint32_t at) {
  const auto found = barriers_.find(at);
  if (found == barriers_.end()) throw Failure("no mbarrier at " + std::to_string(at));
  return found->second;
}

void Machine::turn(Barrier& b) {
  if (b.missing > 0 || b.bytes != 0) return;
  ++b.phase;
  b.missing = b.arrivals;
}

void Machine::barrier_init(std::uint32_t at, int arrivals) {
  (void)shared(at, 8);
  barriers_[at] = {.arrivals = arrivals, .missing = arrivals};
}

void Machine::barrier_arrive(std::uint32_t at, std::int64_t expected_bytes) {
  Barrier& b = barrier(at);
  if (b.missing == 0) throw Failure("more arrivals at an mbarrier than it was made for");
  --b.missing;
  b.bytes += expected_bytes;
  turn(b);
}

void Machine::barrier_complete(std::uint32_t at, std::int64_t bytes) {
  Barrier& b = barrier(at);
  b.bytes -= bytes;
  turn(b);
}

void Machine::barrier_wait(std::uint32_t at, std::uint32_t parity) {
  const Barrier& b = barrier(at);
  wait_until([&] { return (b.phase & 1U) != parity; });
}

// ---- memory

std::uint8_t* Machine::shared(std::uint32_t at, std::size_t bytes) {
  if (at > shared_.size() || bytes > shared_.size() - at)
    throw Failure("shared memory has no " + std::to_string(bytes) + " bytes at " +
                  std::to_string(at));
  return shared_.data() + at;
}

std::uint32_t Machine::tensor_allocate(int columns) {
  const bool power_of_two = (columns & (columns - 1)) == 0;
  if (columns < 32 || columns > kTensorColumns || !power_of_two)
    throw Failure("tensor memory is allocated in powers of two from 32 to 512 columns");
  if (tensor_columns_ != 0) throw Failure("tensor memory was allocated already");
  tensor_columns_ = columns;
  tensor_first_ = kTensorColumns - columns;
  return static_cast<std::uint32_t>(tensor_first_);
}

void Machine::tensor_free(std::uint32_t at, int columns) {
  if (tensor_columns_ != columns || static_cast<int>(at) != tensor_first_)
    throw Failure("tensor memory is given back that was not allocated");
  tensor_columns_ = 0;
}

std::uint32_t& Machine::tensor(int lane, int column) {
  const bool allocated = column >= tensor_first_ && column < tensor_first_ + tensor_columns_;
  if (lane < 0 || lane >= kTensorLanes || !allocated)
    throw Failure("tensor memory at lane " + std::to_string(lane) + ", column " +
                  std::to_string(column) + " is not the block's");
  return tensor_[static_cast<std::size_t>(lane * kTensorColumns + column)];
}

}  // namespace parity::emulated
