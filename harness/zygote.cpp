#include "harness/zygote.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "harness/failure.hpp"

namespace parity {
namespace {

// One message: of each piece of work its subject, whether it is a device's, how many candidates,
// and these; the pipe travels beside it.
constexpr std::size_t kMostWords = 16384;
using Word = std::uint32_t;

std::vector<Word> words_of(std::span<const Work> all) {
  std::vector<Word> words;
  for (const Work& w : all) {
    words.push_back(static_cast<Word>(w.number));
    words.push_back(w.device ? 1 : 0);
    words.push_back(static_cast<Word>(w.todo.size()));
    for (const std::size_t c : w.todo) words.push_back(static_cast<Word>(c));
  }
  if (words.size() > kMostWords) throw Failure("too many candidates for one child");
  return words;
}

std::vector<Work> work_of(std::span<const Word> words) {
  std::vector<Work> all;
  for (std::size_t at = 0; at + 3 <= words.size();) {
    Work w{.number = words[at], .device = words[at + 1] != 0};
    const std::span<const Word> todo = words.subspan(at + 3, words[at + 2]);
    w.todo.assign(todo.begin(), todo.end());
    at += 3 + todo.size();
    all.push_back(std::move(w));
  }
  return all;
}

struct Envelope {
  Envelope(void* data, std::size_t size) : part{data, size} {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
};

Candidate resolved(const Candidate& c, const Case& problem) {
  if (c.environment.empty()) return c;
  const KernelDef* kernel = registry().kernel(c.name);
  if (!kernel) {
    Candidate missing = c;
    missing.unsupported = "the library does not hold this kernel; it was built from other sources";
    return missing;
  }
  return candidate_of(*kernel, c.options, problem, c.fault);
}

// The child must be one of the suite, which waits for it: its parent in between ends at once.
[[noreturn]] void serve_suite(const std::vector<Subject>& subjects, std::span<const Work> work,
                              const SuiteOptions& options, const SuiteHooks& hooks, pid_t suite,
                              int out) {
  if (::fork() != 0) ::_exit(0);
  for (int i = 0; ::getppid() != suite && i < 10'000; ++i)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  if (!become_child(suite)) ::_exit(2);
  Subject here;
  const auto subject_of = [&](std::size_t number) -> const Subject& {
    here = subjects.at(number);
    for (Candidate& c : here.candidates) c = resolved(c, here.problem);
    return here;
  };
  serve(work, subject_of, options, hooks, out);
}

[[noreturn]] void live(const std::vector<Subject>& subjects, const SuiteOptions& options,
                       const SuiteHooks& hooks, const std::string& library, pid_t suite,
                       int socket) {
  // One thread unless a kernel asks for more: what follows forks.
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
    ::setenv(name, "1", 1);
  // Where a kernel does ask, its threads wait asleep: several cases run at once, and threads that
  // spin take the cores from those that compute (measured: 1100 ms of a launch that computes 95
  // ms).
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  ::setenv("GOMP_SPINCOUNT", "0", 1);
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  std::string answer = "ok";
  if (!::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    const char* why = ::dlerror();
    answer = fmt::format("{} cannot be loaded: {}", library, why ? why : "unknown reason");
  }
  ::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL);
  std::vector<Word> words(kMostWords);
  for (;;) {
    Envelope envelope(words.data(), words.size() * sizeof(Word));
    const ssize_t n = ::recvmsg(socket, &envelope.message, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    const cmsghdr* header = n > 0 ? CMSG_FIRSTHDR(&envelope.message) : nullptr;
    if (!header) ::_exit(0);
    int out = -1;
    std::memcpy(&out, CMSG_DATA(header), sizeof out);
    const std::vector<Work> work =
        work_of(std::span(words).first(static_cast<std::size_t>(n) / sizeof(Word)));
    const pid_t between = ::fork();
    if (between == 0) serve_suite(subjects, work, options, hooks, suite, out);
    ::close(out);
    if (between > 0) ::waitpid(between, nullptr, 0);
  }
}

}  // namespace

Zygote::Zygote(const std::vector<Subject>& subjects, const SuiteOptions& options,
               const SuiteHooks& hooks, const std::string& library) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw Failure("socketpair failed");
  Fd here(ends[0]), there(ends[1]);
  const pid_t suite = ::getpid();
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw Failure("fork failed");
  if (pid_ == 0) {
    here.reset();
    if (!become_child(suite)) ::_exit(2);
    quiet_stdio();
    try {
      live(subjects, options, hooks, library, suite, there.get());
    } catch (...) {
      ::_exit(2);
    }
  }
  socket_ = std::move(here);
}

Zygote::~Zygote() {
  socket_.reset();
  if (pid_ > 0) kill_and_reap(pid_);
}

const std::string& Zygote::trouble(double timeout_s) {
  if (trouble_) return *trouble_;
  const Deadline deadline = after_seconds(timeout_s);
  pollfd p{socket_.get(), POLLIN, 0};
  while (::poll(&p, 1, poll_ms(deadline)) <= 0)
    if (poll_ms(deadline) == 0)
      return trouble_.emplace(fmt::format("the library did not load within {:g} s", timeout_s));
  std::array<char, 4096> text{};
  const ssize_t n = ::recv(socket_.get(), text.data(), text.size(), 0);
  if (n <= 0) return trouble_.emplace("the process that loads the library died");
  const std::string answer(text.data(), static_cast<std::size_t>(n));
  return trouble_.emplace(answer == "ok" ? "" : answer);
}

void Zygote::start(std::span<const Work> work, int out) {
  std::vector<Word> words = words_of(work);
  Envelope envelope(words.data(), words.size() * sizeof(Word));
  cmsghdr* header = CMSG_FIRSTHDR(&envelope.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &out, sizeof out);
  if (::sendmsg(socket_.get(), &envelope.message, MSG_NOSIGNAL) < 0)
    throw Failure(
        fmt::format("the process that holds the library is gone: {}", std::strerror(errno)));
}

}  // namespace parity
