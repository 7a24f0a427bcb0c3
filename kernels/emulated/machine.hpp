// One thread block of a Blackwell GPU on a CPU: threads as fibers, shared and tensor memory,
// mbarriers, and asynchronous work that is done as late as it can be.
//
// A thread runs until it waits. When all of them wait, one pending operation is done: of copies and
// of the tensor core's work (which is in order) the block's number says which goes first, so that a
// missing wait for either is seen in one block or the other. Memory starts poisoned: 0xFF, which
// is NaN as a float and as a scale. What waits for nothing that can still happen is an error.
//
// Not modelled: fences between the generic and the asynchronous view of memory, clusters, timing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace parity::emulated {

class Machine {
 public:
  struct Block {
    int x = 0, y = 0, grid_x = 1;
    std::int64_t number = 0;  // in the grid
    int threads = 0;
    std::size_t shared_bytes = 0;
  };
  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Runs body() in every thread of the block. What a thread throws is thrown here.
  void run(const Block&, const std::function<void()>& body);
  [[nodiscard]] static Machine& current();  // of the block that runs on this thread of the CPU

  // ---- for the threads of the block
  [[nodiscard]] int thread() const { return running_; }
  [[nodiscard]] const Block& block() const { return block_; }
  void wait_until(const std::function<bool()>& holds);
  void sync_threads();
  // Meets the other lanes of the warp, each with its registers; the last runs `work` for all.
  // work(const void* const* lanes). Nothing is allocated for it: a thread may never come back.
  template <class Work>
  void with_warp(const void* mine, const Work& work) {
    meet(mine, std::cref(work));
  }

  enum class Queue : std::uint8_t { Copies, Tensor };
  void later(Queue, std::function<void()> work);

  void barrier_init(std::uint32_t at, int arrivals);
  void barrier_arrive(std::uint32_t at, std::int64_t expected_bytes);
  void barrier_complete(std::uint32_t at, std::int64_t bytes);
  void barrier_wait(std::uint32_t at, std::uint32_t parity);

  // Throws where [at, at + bytes) is not within the block's shared memory.
  [[nodiscard]] std::uint8_t* shared(std::uint32_t at, std::size_t bytes);

  static constexpr int kTensorLanes = 128, kTensorColumns = 512;
  [[nodiscard]] std::uint32_t tensor_allocate(int columns);  // beginning at no round column
  void tensor_free(std::uint32_t at, int columns);
  [[nodiscard]] std::uint32_t& tensor(int lane, int column);  // of what is allocated

 private:
  struct Barrier {
    int arrivals = 0, missing = 0;
    std::int64_t bytes = 0;  // expected and not there
    std::uint32_t phase = 0;
  };
  struct Meeting {
    std::vector<const void*> lanes = {};
    int present = 0;
    std::uint64_t held = 0;  // how many meetings there were
  };
  struct Fibers;

  void meet(const void* mine, const std::function<void(const void* const* lanes)>& work);
  Barrier& barrier(std::uint32_t at);
  static void turn(Barrier&);
  bool do_one_pending();
  void start(const Block&);

  Block block_ = {};
  int running_ = 0;
  std::unique_ptr<Fibers> fibers_;
  std::vector<std::uint8_t> shared_ = {};
  std::vector<std::uint32_t> tensor_ = {};
  int tensor_first_ = 0, tensor_columns_ = 0;
  std::map<std::uint32_t, Barrier> barriers_ = {};
  std::vector<std::function<void()>> pending_[2] = {};
  std::size_t done_[2] = {};
  std::vector<Meeting> warps_ = {};
  int at_sync_ = 0;
  std::uint64_t syncs_ = 0;
};

}  // namespace parity::emulated
