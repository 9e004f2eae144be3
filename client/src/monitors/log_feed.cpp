#include "client/src/monitors/log_feed.h"

#include <algorithm>

#include "client/src/gateway/gateway.h"
#include "common/base/log.h"
#include "common/security/token.h"
#include "wire/logs_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::seconds kLogAskLimit{5};
/// A stream that is silent for so long is looked after.
constexpr std::chrono::seconds kSilence{1};
/// What all hosts together may have under way: half of what a broker holds for one peer.
constexpr std::size_t kAllWindows = 2 * 1024 * 1024;
constexpr std::size_t kMostWindow = 256 * 1024;
constexpr std::size_t kLeastWindow = 16 * 1024;

}  // namespace

LogFeed::LogFeed(std::string mesh, std::vector<Place> places, LogOptions options,
                 LogHandlers handlers, HandlerThread& thread, std::chrono::milliseconds patience)
    : mesh_(std::move(mesh)),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      thread_(thread),
      patience_(patience),
      number_(random_u64()) {
  for (auto& place : places) {
    Host host{
        .address = std::move(place.host), .ranks = std::move(place.ranks), .silent_since = {}};
    hosts_.push_back(std::move(host));
  }
}

void LogFeed::start(Gateway& gateway) {
  gateway_ = &gateway;
  for (auto& host : hosts_) ask(host, false);
}

void LogFeed::ask(Host& host, bool again) {
  wire::StreamLogsT request;
  request.mesh = mesh_;
  request.subscriber = gateway_->status().self();
  request.stream = number_;
  for (const auto& block : host.ranks) request.ranks.emplace_back(block.begin, block.end);
  request.streams = static_cast<std::uint8_t>((options_.out ? 1 : 0) | (options_.err ? 2 : 0));
  request.tail = options_.tail;
  request.follow = options_.follow;
  request.window = static_cast<std::uint32_t>(
      std::clamp(kAllWindows / std::max<std::size_t>(hosts_.size(), 1), kLeastWindow, kMostWindow));
  if (again) {
    for (const auto& [position, offset] : positions_) {
      if (contains(host.ranks, position.first))
        request.from.emplace_back(position.first, offset, position.second);
    }
  }
  host.is_asked = true;
  host.expected = 1;
  gateway_->bus()->request(
      Destination::to_agent(host.address), std::move(request), kLogAskLimit,
      [self = shared_from_this(), &host](const Result<ControlMessage>& answer) {
        self->on_started(host, answer);
      });
}

void LogFeed::on_started(Host& host, const Result<ControlMessage>& answer) {
  host.is_asked = false;
  if (gateway_ == nullptr || host.is_done) return;
  const auto* const started = answer ? answer->body_as<wire::LogStarted>() : nullptr;
  if (started == nullptr) {
    const Error error = answer ? Error(ErrorCode::malformed_message,
                                       "it answered " + answer->body_name() + " to StreamLogs")
                               : answer.error();
    const bool may_mend =
        error.code() == ErrorCode::timeout || error.code() == ErrorCode::fate_unknown ||
        error.code() == ErrorCode::queue_full || error.code() == ErrorCode::host_unreachable;
    if (may_mend) return note_silence(host, error);
    return finish(host, fail(error.within("host " + host.address.to_string())));
  }
  host.silent_since.reset();
  host.heard = gateway_->bus()->reactor().now();
  if (started->positions() == nullptr || options_.tail == LogOptions::everything) return;
  for (const auto* position : *started->positions())
    positions_.try_emplace({position->rank(), position->stream()}, position->offset());
}

void LogFeed::on_log(const HostAddr& from, const wire::Log& log) {
  const auto found = std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& host) {
    return host.address == from && !host.is_done;
  });
  if (found == hosts_.end() || gateway_ == nullptr) return;
  Host& host = *found;
  host.heard = gateway_->bus()->reactor().now();
  host.silent_since.reset();
  const bool is_next = log.sequence() == host.expected;
  if (!is_next && (log.sequence() != log.since() || log.since() < host.expected)) return;
  host.expected = log.sequence() + 1;

  struct Piece {
    LogPiece piece;
    std::string bytes;
  };
  std::vector<Piece> pieces;
  const auto add = [&](std::uint64_t rank, wire::Stream stream, std::uint64_t offset,
                       std::string_view bytes, bool is_last) {
    if (!contains(host.ranks, rank) || (stream != wire::Stream::out && stream != wire::Stream::err))
      return;
    auto& position = positions_[{rank, stream}];
    const auto known = std::min<std::uint64_t>(position - std::min(position, offset), bytes.size());
    bytes.remove_prefix(static_cast<std::size_t>(known));
    offset += known;
    if (bytes.empty() && !is_last) return;
    LogPiece piece{.rank = rank,
                   .stream = stream == wire::Stream::err ? Stream::err : Stream::out,
                   .offset = offset,
                   .missed = offset - std::min(position, offset),
                   .bytes = {},
                   .is_last = is_last};
    position = std::max(position, offset + bytes.size());
    pieces.push_back({piece, std::string(bytes)});
  };
  std::map<Position, std::uint64_t> ends;
  if (log.ends() != nullptr) {
    for (const auto* end : *log.ends())
      ends.insert_or_assign({end->rank(), end->stream()}, end->offset());
  }
  if (log.chunks() != nullptr) {
    for (const auto* chunk : *log.chunks()) {
      const std::string_view bytes(reinterpret_cast<const char*>(chunk->data()->data()),
                                   chunk->data()->size());
      // An end is told with the last bytes, so that what is shown keeps its order.
      const auto end = ends.find({chunk->rank(), chunk->stream()});
      const bool is_last = end != ends.end() && end->second == chunk->offset() + bytes.size();
      add(chunk->rank(), chunk->stream(), chunk->offset(), bytes, is_last);
      if (is_last) ends.erase(end);
    }
  }
  for (const auto& [stream, offset] : ends) add(stream.first, stream.second, offset, {}, true);
  ++host.unhandled;
  thread_.post([self = shared_from_this(), &host, pieces = std::move(pieces),
                sequence = log.sequence(), is_done = log.done(),
                &reactor = gateway_->bus()->reactor()] {
    for (const auto& [piece, bytes] : pieces) {
      LogPiece whole = piece;
      whole.bytes = bytes;
      self->gate_.pass([&] { self->handlers_.on_piece(whole); });
    }
    reactor.post([self, &host, sequence, is_done] {
      --host.unhandled;
      if (self->gateway_ == nullptr) return;
      self->say_taken(host, sequence);
      if (is_done) self->finish(host, {});
    });
  });
}

void LogFeed::say_taken(Host& host, std::uint64_t sequence) {
  wire::LogTakenT taken;
  taken.mesh = mesh_;
  taken.stream = number_;
  taken.sequence = sequence;
  gateway_->bus()->tell(Destination::to_agent(host.address), std::move(taken));
}

void LogFeed::on_upkeep() {
  if (gateway_ == nullptr) return;
  const auto now = gateway_->bus()->reactor().now();
  for (auto& host : hosts_) {
    if (!host.is_done && !host.is_asked && host.unhandled == 0 && now - host.heard >= kSilence)
      check(host);
  }
}

void LogFeed::check(Host& host) {
  wire::LogTakenT taken;
  taken.mesh = mesh_;
  taken.stream = number_;
  taken.sequence = host.expected - 1;
  taken.resend = true;
  host.is_asked = true;
  gateway_->bus()->request(
      Destination::to_agent(host.address), std::move(taken), kLogAskLimit,
      [self = shared_from_this(), &host](const Result<ControlMessage>& answer) {
        host.is_asked = false;
        if (self->gateway_ == nullptr || host.is_done) return;
        if (answer) {
          host.silent_since.reset();
          host.heard = self->gateway_->bus()->reactor().now();
        } else if (answer.error().code() == ErrorCode::not_exist && host.unhandled == 0) {
          // Another life of that agent, or it took us for gone.
          self->ask(host, true);
        } else {
          self->note_silence(host, answer.error());
        }
      });
}

void LogFeed::note_silence(Host& host, const Error& error) {
  const auto now = gateway_->bus()->reactor().now();
  if (!host.silent_since) host.silent_since = now;
  if (now - *host.silent_since < patience_) return;
  finish(host, fail(ErrorCode::host_unreachable,
                    "host " + host.address.to_string() + " does not answer for " +
                        std::to_string(patience_.count()) + " ms: " + error.to_string()));
}

void LogFeed::finish(Host& host, const Result<void>& how) {
  if (std::exchange(host.is_done, true)) return;
  if (!how && !problem_) problem_ = how.error();
  const bool is_all =
      std::all_of(hosts_.begin(), hosts_.end(), [](const Host& one) { return one.is_done; });
  if (!is_all || std::exchange(is_over_, true)) return;
  thread_.post([self = shared_from_this(), problem = problem_] {
    const Result<void> result = problem ? Result<void>(fail(*problem)) : Result<void>();
    if (self->handlers_.on_end) self->gate_.pass([&] { self->handlers_.on_end(result); });
  });
}

void LogFeed::on_closed(const std::string& reason) {
  if (gateway_ == nullptr) return;
  for (auto& host : hosts_)
    finish(host, fail(ErrorCode::host_unreachable, "the connection is closed: " + reason));
  gateway_ = nullptr;
}

void LogFeed::stop() {
  if (gateway_ == nullptr) return;
  for (auto& host : hosts_) {
    if (host.is_done) continue;
    wire::StopLogsT stop;
    stop.mesh = mesh_;
    stop.stream = number_;
    gateway_->bus()->tell(Destination::to_agent(host.address), std::move(stop));
    host.is_done = true;
  }
  gateway_ = nullptr;
}

}  // namespace meshbus
