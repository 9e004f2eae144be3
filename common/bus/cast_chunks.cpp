#include "common/bus/cast_chunks.h"

#include <algorithm>
#include <utility>

#include "common/bus/cast_sender.h"
#include "common/bus/chunk_sender.h"
#include "common/bus/requests.h"
#include "common/wire/frame.h"

namespace meshbus {
namespace {

Error no_rank_is_left() {
  return {ErrorCode::internal, "no rank is left"};
}

}  // namespace

CastChunks::~CastChunks() {
  for (const auto& [id, transfer] : transfers_) reactor_.cancel(transfer.retry);
}

void CastChunks::send(std::uint64_t id, std::shared_ptr<const CastPlan> to, SharedBody body,
                      Events events) {
  const std::size_t ranks = to->targets.size();
  transfers_.emplace(id, Transfer{.to = std::move(to),
                                  .body = std::move(body),
                                  .events = std::move(events),
                                  .has_failed = std::vector<bool>(ranks, false),
                                  .answered = std::vector<std::size_t>(ranks, 0)});
  go_on(id);
}

void CastChunks::go_on(std::uint64_t id) {
  Transfer& transfer = transfers_.at(id);
  const Bytes body = transfer.body.bytes();
  while (transfer.waiting.size() < transfer.pace.allowed() && transfer.sent < body.size()) {
    const std::size_t offset = transfer.sent;
    const Bytes chunk = body.substr(offset, ChunkPace::kChunk);
    const wire::ChunkHeader header(id, body.size(), offset);
    const auto call = requests_.take_id();
    const bool has_left = casts_.call_chunk(
        call, transfer.to, bytes_of(&header, sizeof header), chunk, ChunkSender::kChunkLimit,
        [this, id, offset, alive = std::weak_ptr<void>(alive_)](std::uint64_t ordinal,
                                                                const Result<std::string>& answer) {
          if (!alive.expired()) on_answer(id, offset, ordinal, answer);
        });
    if (!has_left) {
      // Nothing behind it may leave before it.
      transfer.give_up = std::min(transfer.give_up, reactor_.now() + ChunkSender::kChunkLimit);
      transfer.retry = reactor_.after(ChunkSender::kRetry, [this, id] {
        transfers_.at(id).retry = 0;
        const bool is_over = reactor_.now() >= transfers_.at(id).give_up;
        is_over ? give_up(id, Requests::queue_is_full()) : check(id, Requests::queue_is_full());
      });
      return;
    }
    transfer.sent += chunk.size();
    transfer.waiting.emplace(
        offset, Waiting{transfer.to->targets.size() - transfer.failed, reactor_.now()});
  }
}

void CastChunks::on_answer(std::uint64_t id, std::size_t offset, std::uint64_t ordinal,
                           const Result<std::string>& answer) {
  const auto found = transfers_.find(id);
  if (found == transfers_.end()) return;
  Transfer& transfer = found->second;
  if (transfer.has_failed[ordinal]) return;
  if (answer) {
    transfer.answered[ordinal] = offset + ChunkPace::kChunk;
    if (const auto chunk = transfer.waiting.find(offset);
        chunk != transfer.waiting.end() && --chunk->second.ranks == 0) {
      transfer.pace.on_answer(reactor_.now() - chunk->second.since);
      transfer.give_up = Reactor::Time::max();
      transfer.waiting.erase(chunk);
    }
    return check(id, no_rank_is_left());
  }
  transfer.has_failed[ordinal] = true;
  ++transfer.failed;
  for (auto chunk = transfer.waiting.begin(); chunk != transfer.waiting.end();) {
    const bool is_waited_for = chunk->first >= transfer.answered[ordinal];
    if (is_waited_for && --chunk->second.ranks == 0) {
      chunk = transfer.waiting.erase(chunk);
    } else {
      ++chunk;
    }
  }
  const auto on_failed = transfer.events.on_failed;
  if (on_failed) on_failed(ordinal, answer.error());
  check(id, answer.error());
}

void CastChunks::check(std::uint64_t id, const Error& last) {
  const auto found = transfers_.find(id);
  if (found == transfers_.end()) return;
  Transfer& transfer = found->second;
  const std::size_t size = transfer.body.bytes().size();
  const bool is_lost = transfer.failed == transfer.to->targets.size();
  const bool is_done = transfer.sent == size && transfer.waiting.empty();
  if (!is_lost && transfer.events.is_wanted()) {
    if (!is_done) {
      if (transfer.retry == 0) go_on(id);
      return;
    }
    auto done = transfers_.extract(id);
    return done.mapped().events.on_done(wire::ChunkHeader(id, size, 0));
  }
  if (is_lost) return give_up(id, last);
  reactor_.cancel(transfer.retry);
  forget(id, transfer.to);
  transfers_.erase(found);
}

void CastChunks::give_up(std::uint64_t id, const Error& error) {
  auto done = transfers_.extract(id);
  reactor_.cancel(done.mapped().retry);
  forget(id, done.mapped().to);
  done.mapped().events.on_done(fail(error));
}

void CastChunks::fail_all(const Error& error) {
  auto transfers = std::exchange(transfers_, {});
  for (const auto& [id, transfer] : transfers) {
    reactor_.cancel(transfer.retry);
    transfer.events.on_done(fail(error));
  }
}

void CastChunks::forget(std::uint64_t id, const std::shared_ptr<const CastPlan>& to) {
  const wire::ChunkHeader header(id, 0, 0);
  // What cannot be told is forgotten after a while (ChunkStore::kIdle).
  static_cast<void>(casts_.call_chunk(requests_.take_id(), to, bytes_of(&header, sizeof header), {},
                                      ChunkSender::kChunkLimit,
                                      [](std::uint64_t, const Result<std::string>&) {}));
}

}  // namespace meshbus
