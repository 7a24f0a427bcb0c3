#include "harness/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <malloc.h>
#include <new>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "harness/failure.hpp"

namespace parity {
namespace {

[[noreturn]] void fail(const char* what) {
  throw Failure(fmt::format("{}: {}", what, std::strerror(errno)));
}

constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;  // shadow memory takes terabytes of address space
#else
    false;
#endif

std::string_view signal_name(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV, an access outside its memory";
    case SIGBUS:
      return "SIGBUS, a bad address";
    case SIGFPE:
      return "SIGFPE, an integer division by zero or overflow";
    case SIGILL:
      return "SIGILL, an instruction that this CPU does not have";
    case SIGABRT:
      return "SIGABRT: abort(), a failed assertion or an exception that nobody caught";
    case SIGTRAP:
      return "SIGTRAP";
    case SIGSYS:
      return "SIGSYS";
    default:
      return "";
  }
}

// No default of the system and nobody's library ends a process by this signal.
int out_of_memory_signal() { return SIGRTMAX; }

std::terminate_handler terminate_before = nullptr;

[[noreturn]] void end_by_cause() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    die_out_of_memory();
  } catch (...) {
  }
  terminate_before();  // says what was thrown
  std::abort();
}

// Bytes of this process.
struct Memory {
  std::int64_t mapped = 0, resident = 0;
};
Memory memory() {
  Memory pages;
  std::ifstream("/proc/self/statm") >> pages.mapped >> pages.resident;
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  return {pages.mapped * page, pages.resident * page};
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
  return {Fd(ends[0]), Fd(ends[1])};
}

Deadline after_seconds(double seconds) {
  const std::chrono::duration<double> bounded(std::clamp(seconds, 0.0, 1e8));
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<Deadline::duration>(bounded);
}

int poll_ms(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

Ending reap(pid_t pid) {
  Ending ending;
  rusage usage{};
  while (::wait4(pid, &ending.status, 0, &usage) < 0)
    if (errno != EINTR) fail("wait4");
  ending.max_rss_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  return ending;
}

std::optional<Ending> reap_until(pid_t pid, Deadline deadline) {
  Ending ending;
  rusage usage{};
  for (std::chrono::microseconds pause(20);;
       pause = std::min(pause * 2, std::chrono::microseconds(5000))) {
    const pid_t ended = ::wait4(pid, &ending.status, WNOHANG, &usage);
    if (ended == pid) break;
    if (ended < 0 && errno != EINTR) fail("wait4");
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
  ending.max_rss_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  return ending;
}

Ending kill_and_reap(pid_t pid) {
  ::kill(-pid, SIGKILL);  // its group, where it has one already
  ::kill(pid, SIGKILL);
  return reap(pid);
}

Trouble explain(const Ending& ending, const MemoryLimit& limit) {
  if (WIFEXITED(ending.status))
    return {"crash",
            fmt::format("exited with code {} before it had finished", WEXITSTATUS(ending.status))};
  const int signal = WTERMSIG(ending.status);
  if (signal == SIGKILL)
    return {"memory", "killed by SIGKILL, which is what the system does when memory runs out"};
  if (signal == out_of_memory_signal())
    return {"memory", "out of memory: an allocation failed, and nothing caught that"};
  // malloc that failed and was written to all the same.
  const std::int64_t grown = ending.max_rss_bytes - limit.start_bytes;
  if ((signal == SIGSEGV || signal == SIGABRT) && limit.more_bytes > 0 &&
      static_cast<double>(grown) > 0.9 * static_cast<double>(limit.more_bytes))
    return {"memory", fmt::format("killed by {}, with {} MiB of the {} MiB that it may use",
                                  signal_name(signal), grown >> 20, limit.more_bytes >> 20)};
  const std::string_view known = signal_name(signal);
  return {"crash", known.empty() ? fmt::format("killed by signal {}", signal)
                                 : fmt::format("killed by {}", known)};
}

std::vector<pid_t> children() {
  std::ifstream list(fmt::format("/proc/self/task/{}/children", ::getpid()));
  std::vector<pid_t> all;
  for (pid_t pid = 0; list >> pid;) all.push_back(pid);
  return all;
}

void kill_children(std::span<const pid_t> except) {
  // In rounds: the children of what was killed come to this process.
  for (bool any = true; any;) {
    any = false;
    for (const pid_t pid : children()) {
      if (std::ranges::find(except, pid) != except.end()) continue;
      any = true;
      kill_and_reap(pid);
    }
  }
}

bool has_ended(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

bool become_child(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return false;
  ::setpgid(0, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGALRM})
    ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (!terminate_before) terminate_before = std::set_terminate(end_by_cause);
  return true;
}

void die_out_of_memory() {
  const int signal = out_of_memory_signal();
  ::signal(signal, SIG_DFL);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signal);
  std::abort();
}

MemoryLimit limit_memory(std::int64_t more_bytes) {
  if (more_bytes <= 0 || kSanitized) return {};
  const Memory now = memory();
  const auto bytes = static_cast<rlim_t>(now.mapped + more_bytes);
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > bytes) {
    limit.rlim_cur = bytes;
    if (::setrlimit(RLIMIT_AS, &limit) != 0) return {};
    std::ofstream("/proc/self/oom_score_adj")
        << 1000;  // if memory runs out all the same, take this process
  }
  return {.more_bytes = static_cast<std::int64_t>(limit.rlim_cur) - now.mapped,
          .start_bytes = now.resident};
}

pid_t lean_fork() {
  // Asking the allocator what it holds free walks all of it; what is resident costs one read.
  constexpr std::int64_t kWorthIt = std::int64_t{8} << 20;
  static std::int64_t trimmed = 0;  // resident after the last time
  if (memory().resident > trimmed + kWorthIt) {
    ::malloc_trim(0);
    trimmed = memory().resident;
  }
  std::fflush(nullptr);
  return ::fork();
}

void quiet_stdio() {
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.get() >= 0) ::dup2(null.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
}

void mute_stderr() {
  const Fd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (null.get() >= 0) ::dup2(null.get(), STDERR_FILENO);
}

}  // namespace parity
