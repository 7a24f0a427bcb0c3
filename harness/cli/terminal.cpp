#include "harness/cli/terminal.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "reports/words.hpp"

namespace parity::cli {
namespace {

std::size_t width_of(int file) {
  winsize size{};
  return ::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 0;
}

std::string bar(double share, std::size_t cells) {
  const auto full = static_cast<std::size_t>(std::lround(share * static_cast<double>(cells)));
  std::string text;
  for (std::size_t i = 0; i < cells; ++i) text += i < full ? "█" : "░";
  return text;
}

}  // namespace

reports::ConsoleStyle style_of(const Arguments& args) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const std::size_t width = terminal ? width_of(STDOUT_FILENO) : 0;
  return {.colour = terminal && !(no_color && *no_color),
          .verbose = args.verbose,
          .width = width ? static_cast<int>(width) : 160};
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void complain(const std::string& text) { fmt::print(stderr, "parity: {}\n", text); }

ProgressLine::ProgressLine(const Arguments& args)
    : quiet_(args.quiet), verbose_(args.verbose), terminal_(::isatty(STDERR_FILENO) == 1) {
  if (const std::size_t width = width_of(STDERR_FILENO)) width_ = width;
  next_ = Clock::now() + (terminal_ ? std::chrono::milliseconds(0) : std::chrono::seconds(10));
}

void ProgressLine::phase(const std::string& what) {
  clear();
  phase_ = what;
  if (!quiet_ && !terminal_) fmt::print(stderr, "{}\n", what);
}

void ProgressLine::clear() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

void ProgressLine::show(const Progress& progress) {
  if (quiet_) return;
  if (verbose_ && !progress.current.empty() && progress.current != last_) {
    clear();
    last_ = progress.current;
    fmt::print(stderr, "{}\n",
               reports::visible(progress.current));  // before it runs, so that a crash has a name
  }
  const auto now = Clock::now();
  if (now < next_) return;
  const double share =
      progress.total > 0 ? static_cast<double>(progress.done) / static_cast<double>(progress.total)
                         : 0;
  const std::string left = progress.seconds_left > 0
                               ? "  " + reports::duration(progress.seconds_left * 1e3) + " left"
                               : "";
  const std::string counts = fmt::format("{} {}/{}{}", phase_, progress.done, progress.total, left);
  if (!terminal_) {
    next_ = now + std::chrono::seconds(10);
    fmt::print(stderr, "{}  {}\n", counts, reports::visible(progress.current));
    return;
  }
  next_ = now + std::chrono::milliseconds(100);
  const std::size_t room = width_ > counts.size() + 28 ? width_ - counts.size() - 28 : 0;
  fmt::print(stderr, "\r\x1b[K{} {}  {}", bar(share, 20), counts,
             reports::visible(progress.current.substr(0, room)));
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace parity::cli
