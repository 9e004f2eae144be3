#include "cli/hands/copy_session.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

/// Bytes of one request.
constexpr std::size_t kUploadPiece = 256 * 1024;
constexpr int kProgressMs = 500;
/// What is kept of what the other side says.
constexpr std::size_t kMostSaid = 64 * 1024;

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace

CopySession::CopySession(HandSignals& signals, Options options)
    : signals_(signals),
      options_(options),
      told_(std::make_unique<nlohmann::ordered_json>(nlohmann::ordered_json::array())) {}

CopySession::~CopySession() = default;

void CopySession::add_upload(RankExec exec, const HandRank& rank, std::string name,
                             std::vector<std::string> paths) {
  auto copy =
      std::make_unique<Copy>(Copy{.exec = std::move(exec), .rank = rank, .name = std::move(name)});
  copy->reader.emplace(std::move(paths));
  copies_.push_back(std::move(copy));
}

void CopySession::add_download(RankExec exec, const HandRank& rank, std::string name,
                               TreeWriter writer) {
  auto copy =
      std::make_unique<Copy>(Copy{.exec = std::move(exec), .rank = rank, .name = std::move(name)});
  copy->writer.emplace(std::move(writer));
  copies_.push_back(std::move(copy));
}

void CopySession::add_failed(const HandRank& rank, const std::string& name, const Error& error) {
  tell(name, error.to_string());
  told_->push_back(copy_json(rank, 0, 0, {error.to_string()}));
}

void CopySession::tell(const std::string& name, const std::string& problem) {
  complain(name + ": " + problem);
  code_ = kFailed;
}

bool CopySession::is_over() const {
  return std::all_of(copies_.begin(), copies_.end(),
                     [](const auto& copy) { return copy->is_over; });
}

int CopySession::run() {
  while (!is_over()) {
    std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0}};
    for (const auto& copy : copies_)
      fds.push_back({copy->is_over ? -1 : copy->exec.news().fd(), POLLIN, 0});
    const int limit = options_.shows_progress ? kProgressMs : -1;
    if (::poll(fds.data(), fds.size(), limit) < 0 && errno != EINTR) break;
    while (const auto signal = signals_.next()) {
      if (*signal != SIGWINCH) end_by(*signal);
    }
    if (ended_by_) break;
    for (const auto& copy : copies_) {
      if (!copy->is_over) take_news(*copy);
    }
    if (options_.shows_progress) show_progress();
  }
  if (has_progress_) std::cerr << "\r\x1b[K";
  for (const auto& copy : copies_) report(*copy);
  if (options_.is_json) std::cout << dump(*told_, 2) << "\n";
  return ended_by_ ? by_signal(*ended_by_) : code_;
}

void CopySession::end_by(int signal) {
  ended_by_ = signal;
  for (const auto& copy : copies_) {
    if (copy->is_over) continue;
    copy->exec.hang_up();
    copy->problem = "the copy was broken off";
  }
}

void CopySession::feed(Copy& copy) {
  if (!copy.reader || copy.is_read || !copy.exec.news().may_write()) return;
  std::string bytes;
  while (!copy.is_read && bytes.size() < kUploadPiece) copy.is_read = !copy.reader->next(bytes);
  if (!copy.reader->problem().empty()) copy.problem = copy.reader->problem();
  copy.exec.write(std::move(bytes), copy.is_read);
}

void CopySession::take_news(Copy& copy) {
  auto& news = copy.exec.news();
  news.clear();
  while (auto piece = news.take()) {
    if (piece->is_err) {
      copy.said += piece->bytes.substr(0, kMostSaid - std::min(kMostSaid, copy.said.size()));
    } else if (copy.writer && copy.problem.empty()) {
      if (const auto added = copy.writer->add(piece->bytes); !added) {
        copy.problem = added.error().detail();
        copy.exec.hang_up();
      }
    }
    copy.exec.taken(piece->sequence);
  }
  feed(copy);
  if (const auto end = news.end()) finish(copy, *end);
}

void CopySession::finish(Copy& copy, const Result<ExecEnd>& end) {
  copy.is_over = true;
  std::string problem = copy.problem;
  if (!end) {
    problem = end.error().to_string();
  } else if (end->signal != 0 || end->code != 0 || (copy.writer && !copy.writer->is_done())) {
    if (problem.empty()) problem = copy.said;
    if (problem.empty()) problem = end->reason;
    if (problem.empty()) problem = "the copy was broken off";
  }
  copy.problem = problem;
  while (copy.problem.ends_with('\n')) copy.problem.pop_back();
}

void CopySession::report(const Copy& copy) {
  if (!copy.problem.empty()) {
    tell(copy.name, copy.problem);
    told_->push_back(copy_json(copy.rank, 0, 0, {copy.problem}));
    return;
  }
  const auto files = copy.writer ? copy.writer->files() : copy.reader->files();
  const auto bytes = copy.writer ? copy.writer->bytes() : copy.reader->bytes();
  // What was left out, by either side.
  std::vector<std::string> notes;
  if (copy.writer) notes.assign(copy.writer->notes().begin(), copy.writer->notes().end());
  std::istringstream said(copy.said);
  for (std::string note; std::getline(said, note);) notes.push_back(note);
  for (const auto& note : notes) tell(copy.name, note);
  told_->push_back(copy_json(copy.rank, files, bytes, notes));
  if (options_.is_json) return;
  std::cout << copy.name << ": " << files << (files == 1 ? " file, " : " files, ")
            << size_text(bytes) << "\n";
}

void CopySession::show_progress() {
  if (Clock::now() - begin_ < std::chrono::seconds(1)) return;
  std::uint64_t bytes = 0;
  std::size_t done = 0;
  for (const auto& copy : copies_) {
    bytes += copy->writer ? copy->writer->bytes() : copy->reader->bytes();
    if (copy->is_over) ++done;
  }
  has_progress_ = true;
  std::cerr << "\r" << size_text(bytes) << " copied, " << done << " of " << copies_.size()
            << " ranks done\x1b[K" << std::flush;
}

}  // namespace meshbus::cli
