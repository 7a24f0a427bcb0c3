#include "harness/child.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <fmt/format.h>
#include <poll.h>
#include <string_view>
#include <unistd.h>

#include "harness/failure.hpp"

namespace parity {
namespace {

constexpr char kAnswered = '+', kThrew = '-';  // the first byte that a child writes

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

[[noreturn]] void work_and_end(const std::function<std::string()>& work, int out) {
  std::string answer;
  try {
    answer = kAnswered + work();
  } catch (const std::bad_alloc&) {
    die_out_of_memory();
  } catch (const std::exception& error) {
    answer = kThrew + std::string(error.what());
  } catch (...) {
    answer = kThrew + std::string("something that is no exception was thrown");
  }
  ::_exit(write_all(out, answer) ? 0 : 2);
}

// False: the deadline passed.
bool read_all(int fd, pid_t pid, Deadline deadline, std::string& bytes) {
  std::array<char, 1 << 16> part{};
  constexpr int kLookMs = 20;  // what the child left behind may hold the pipe open
  for (;;) {
    pollfd wanted{fd, POLLIN, 0};
    const bool ended = has_ended(pid);
    const int left = poll_ms(deadline);
    const int ready = ::poll(&wanted, 1, ended ? 0 : std::min(left, kLookMs));
    if (ready <= 0 && ended) return true;
    if (ready <= 0 && left == 0) return false;
    if (ready <= 0) continue;
    const ssize_t n = ::read(fd, part.data(), part.size());
    if (n == 0 || (n < 0 && errno != EINTR)) return true;
    if (n > 0) bytes.append(part.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

ChildAnswer in_child(const std::function<std::string()>& work, const ChildLimits& limits) {
  Pipe pipe = make_pipe();
  const pid_t self = ::getpid();
  const pid_t pid = lean_fork();
  if (pid < 0) throw Failure("fork failed");
  if (pid == 0) {
    if (!become_child(self)) ::_exit(2);
    quiet_stdio();
    if (limits.quiet) mute_stderr();
    limit_memory(limits.memory_bytes);
    pipe.read.reset();
    work_and_end(work, pipe.write.get());
  }
  pipe.write.reset();
  std::string bytes;
  const Deadline deadline = after_seconds(limits.seconds);
  if (!read_all(pipe.read.get(), pid, deadline, bytes)) {
    kill_and_reap(pid);
    return {.trouble = {"timeout", fmt::format("timed out after {} s", limits.seconds)}};
  }
  std::optional<Ending> ending = reap_until(pid, deadline);
  if (!ending) ending = kill_and_reap(pid);
  if (!bytes.empty() && ending->status == 0)
    return bytes.front() == kAnswered ? ChildAnswer{.bytes = bytes.substr(1)}
                                      : ChildAnswer{.trouble = {"thrown", bytes.substr(1)}};
  return {.trouble = explain(*ending, {.more_bytes = limits.memory_bytes})};
}

}  // namespace parity
