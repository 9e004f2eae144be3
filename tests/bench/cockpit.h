#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/child.h"
#include "common/base/unique_fd.h"

namespace meshbus::bench {

/// A program on a pseudo-terminal of 50 rows of 200 columns, whose output is read and forgotten.
/// Ended with the scope.
class OnTerminal {
 public:
  explicit OnTerminal(std::vector<std::string> argv);
  ~OnTerminal();
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  pid_t pid() const noexcept { return pid_; }
  /// Bytes that it wrote so far.
  std::uint64_t written() const noexcept { return written_; }

 private:
  pid_t pid_ = -1;
  UniqueFd terminal_;
  std::atomic<std::uint64_t> written_{0};
  std::thread reader_;
};

/// A reader of an http server on a unix socket, on a thread of its own: of one answer that does not
/// end, or of the same answer again and again.
class HttpReader {
 public:
  /// `again`: the pause between two questions; 0: one question.
  HttpReader(std::string socket, std::string path, std::chrono::milliseconds again);
  ~HttpReader();
  HttpReader(const HttpReader&) = delete;
  HttpReader& operator=(const HttpReader&) = delete;

  /// Bytes that came so far.
  std::uint64_t received() const noexcept { return received_; }

 private:
  void read();

  std::string socket_, path_;
  std::chrono::milliseconds again_;
  UniqueFd end_;
  std::atomic<std::uint64_t> received_{0};
  std::thread thread_;
};

/// Hosts with metrics and a controller with a page, as a site has them, and those that look on:
/// top, a browser's stream and a scraper of each.
class Cockpit {
 public:
  /// Between two scrapes of a server; Prometheus' own default is a minute.
  static constexpr std::chrono::milliseconds kScrapes{5000};

  /// Everything lies in the folder.
  Cockpit(const std::string& folder, std::size_t hosts);

  /// The addresses of the hosts.
  const std::vector<std::string>& addresses() const noexcept { return addresses_; }
  std::vector<pid_t> wardens() const;
  pid_t controller() const noexcept { return controller_->pid(); }
  /// Waits until top has drawn and the page's stream has begun.
  void attach();
  pid_t top() const noexcept { return top_->pid(); }

 private:
  std::string joined_addresses() const;
  std::string metrics_of(std::size_t host) const {
    return folder_ + "/metrics" + std::to_string(host);
  }

  std::string folder_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Child>> hosts_;
  std::unique_ptr<Child> controller_;
  std::unique_ptr<OnTerminal> top_;
  std::vector<std::unique_ptr<HttpReader>> readers_;
};

}  // namespace meshbus::bench
