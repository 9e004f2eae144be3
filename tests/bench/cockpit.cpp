#include "tests/bench/cockpit.h"

#include <poll.h>
#include <pty.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace meshbus::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = 60s;

void wait_for(const std::string& what, const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!holds()) {
    throw_if_interrupted();
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error(what + " does not come");
    std::this_thread::sleep_for(10ms);  // sleep-ok: with a deadline
  }
}

UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return {};
  return fd;
}

}  // namespace

OnTerminal::OnTerminal(std::vector<std::string> argv) {
  winsize size{};
  size.ws_row = 50;
  size.ws_col = 200;
  std::vector<char*> arguments;
  for (auto& one : argv) arguments.push_back(one.data());
  arguments.push_back(nullptr);
  int terminal = -1;
  pid_ = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (pid_ < 0) throw std::runtime_error("no pseudo-terminal can be had");
  if (pid_ == 0) {
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  terminal_ = UniqueFd(terminal);
  reader_ = std::thread([this] {
    std::array<char, 65536> bytes{};
    // It ends with the last process on the terminal.
    for (ssize_t n = 0; (n = ::read(terminal_.get(), bytes.data(), bytes.size())) > 0;)
      written_ += static_cast<std::uint64_t>(n);
  });
}

OnTerminal::~OnTerminal() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  reader_.join();
}

HttpReader::HttpReader(std::string socket, std::string path, std::chrono::milliseconds again)
    : socket_(std::move(socket)),
      path_(std::move(path)),
      again_(again),
      end_(::eventfd(0, EFD_CLOEXEC)),
      thread_([this] { read(); }) {}

HttpReader::~HttpReader() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(end_.get(), &one, sizeof one);
  thread_.join();
}

void HttpReader::read() {
  for (;;) {
    const UniqueFd connection = connect_to(socket_);
    const std::string question = "GET " + path_ + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (connection && ::write(connection.get(), question.data(), question.size()) > 0) {
      std::array<char, 65536> bytes{};
      for (;;) {
        std::array<pollfd, 2> fds{{{connection.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
        if (::poll(fds.data(), fds.size(), -1) < 0) continue;
        if (fds[1].revents != 0) return;
        const auto n = ::read(connection.get(), bytes.data(), bytes.size());
        if (n <= 0) break;
        received_ += static_cast<std::uint64_t>(n);
      }
    }
    pollfd end{end_.get(), POLLIN, 0};
    if (::poll(&end, 1, static_cast<int>(std::max(again_, 100ms).count())) > 0) return;
  }
}

Cockpit::Cockpit(const std::string& folder, std::size_t hosts) : folder_(folder) {
  const auto quiet = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"/bin/sh", "-c", "exec \"$@\" >/dev/null 2>&1", "sh"});
    return words;
  };
  for (std::size_t i = 0; i < hosts; ++i) {
    // One host has one run directory.
    const auto run = folder + "/run" + std::to_string(i);
    std::filesystem::create_directory(run);
    std::filesystem::permissions(run, std::filesystem::perms::owner_all);
    hosts_.push_back(std::make_unique<Child>(
        std::vector<std::string>{"/usr/bin/env", "XDG_RUNTIME_DIR=" + run, own_folder() + "meshbus",
                                 "host", "--metrics", "unix:" + metrics_of(i)}));
    addresses_.push_back(
        nlohmann::json::parse(hosts_.back()->read_line()).at("host").get<std::string>());
  }
  controller_ =
      std::make_unique<Child>(quiet({own_folder() + "meshbus-controller", "--hosts",
                                     joined_addresses(), "--http", "unix:" + folder + "/page"}));
  const auto wait_for_server = [](const std::string& socket) {
    wait_for(socket, [&] { return static_cast<bool>(connect_to(socket)); });
  };
  for (std::size_t i = 0; i < hosts; ++i) wait_for_server(metrics_of(i));
  wait_for_server(folder + "/page");
}

std::string Cockpit::joined_addresses() const {
  std::string joined;
  for (const auto& address : addresses_) joined += (joined.empty() ? "" : ",") + address;
  return joined;
}

std::vector<pid_t> Cockpit::wardens() const {
  std::vector<pid_t> pids;
  for (const auto& host : hosts_) pids.push_back(host->pid());
  return pids;
}

void Cockpit::attach() {
  ::setenv("TERM", "xterm-256color", 1);
  top_ = std::make_unique<OnTerminal>(
      std::vector<std::string>{own_folder() + "meshbus", "top", "--hosts", joined_addresses()});
  const auto read = [&](const std::string& socket, const char* path,
                        std::chrono::milliseconds again) {
    readers_.push_back(std::make_unique<HttpReader>(socket, path, again));
  };
  read(folder_ + "/page", "/api/stream", 0ms);
  read(folder_ + "/page", "/metrics", kScrapes);
  for (std::size_t i = 0; i < hosts_.size(); ++i) read(metrics_of(i), "/metrics", kScrapes);
  wait_for("the screen of top", [&] { return top_->written() > 1000; });
  for (const auto& one : readers_)
    wait_for("an answer of http", [&] { return one->received() > 100; });
}

}  // namespace meshbus::bench
