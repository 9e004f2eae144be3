#include "common/bus/chunk_sender.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/wire/frame.h"

namespace meshbus {
ChunkSender::~ChunkSender() {
  for (const auto& [number, transfer] : transfers_) reactor_.cancel(transfer.retry);
}

void ChunkSender::send(std::uint64_t transfer, const Destination& to, SharedBody body,
                       IsWanted is_wanted, Done done) {
  const auto number = next_++;
  transfers_.emplace(number, Transfer{.id = transfer,
                                      .to = to,
                                      .body = std::move(body),
                                      .is_wanted = std::move(is_wanted),
                                      .done = std::move(done)});
  go_on(number);
}

void ChunkSender::retry_after(Transfer& transfer, std::uint64_t number,
                              std::chrono::milliseconds pause) {
  transfer.give_up = std::min(transfer.give_up, reactor_.now() + kChunkLimit);
  transfer.retry = reactor_.after(pause, [this, number] {
    Transfer& again = transfers_.at(number);
    again.retry = 0;
    if (!again.is_wanted()) {
      if (again.under_way > 0) return;  // its answer ends it
      forget(again.id, again.to);
      transfers_.erase(number);
    } else if (reactor_.now() >= again.give_up) {
      finish(number, fail(Error(again.refusal)));
    } else {
      go_on(number);
    }
  });
}

void ChunkSender::go_on(std::uint64_t number) {
  Transfer& transfer = transfers_.at(number);
  const std::size_t size = transfer.body.bytes().size();
  while (transfer.under_way < (transfer.answered == 0 ? 1 : transfer.pace.allowed()) &&
         transfer.sent < size) {
    const std::size_t offset = transfer.sent;
    const Bytes chunk = transfer.body.bytes().substr(offset, ChunkPace::kChunk);
    const wire::ChunkHeader header(transfer.id, size, offset);
    transfer.sent += chunk.size();
    ++transfer.under_way;
    const auto call = requests_.open_call(
        transfer.to, kChunkLimit,
        [this, number, sent = reactor_.now(),
         alive = std::weak_ptr<void>(alive_)](const Result<std::string>& answer) {
          if (!alive.expired()) on_answer(number, sent, answer);
        });
    if (requests_.post_call(call, transfer.to, 0, kChunkLimit, bytes_of(&header, sizeof header),
                            chunk, kFlagChunk))
      continue;
    requests_.drop(call);
    transfer.sent = offset;
    --transfer.under_way;
    transfer.refusal = Requests::queue_is_full();
    return retry_after(transfer, number, kRetry);
  }
}

void ChunkSender::on_answer(std::uint64_t number, Reactor::Time sent,
                            const Result<std::string>& answer) {
  const auto found = transfers_.find(number);
  if (found == transfers_.end()) return;
  Transfer& transfer = found->second;
  --transfer.under_way;
  if (!transfer.is_wanted()) {
    forget(transfer.id, transfer.to);
    reactor_.cancel(transfer.retry);
    transfers_.erase(found);
    return;
  }
  if (!answer) {
    const bool may_wait = answer.error().code() == ErrorCode::queue_full &&
                          transfer.answered == 0 && reactor_.now() < transfer.give_up;
    if (!may_wait) return finish(number, fail(answer.error()));
    transfer.sent = 0;
    transfer.refusal = answer.error();
    return retry_after(transfer, number, kRoomRetry);
  }
  ++transfer.answered;
  transfer.give_up = Reactor::Time::max();
  transfer.pace.on_answer(reactor_.now() - sent);
  const std::size_t size = transfer.body.bytes().size();
  if (transfer.answered * ChunkPace::kChunk >= size)
    return finish(number, wire::ChunkHeader(transfer.id, size, 0));
  if (transfer.retry == 0) go_on(number);
}

void ChunkSender::finish(std::uint64_t number, const Result<wire::ChunkHeader>& result) {
  auto transfer = transfers_.extract(number);
  reactor_.cancel(transfer.mapped().retry);
  if (!result) forget(transfer.mapped().id, transfer.mapped().to);
  transfer.mapped().done(result);
}

void ChunkSender::fail_all(const Error& error) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, transfer] : transfers_) numbers.push_back(number);
  for (const auto number : numbers) {
    if (transfers_.contains(number)) finish(number, fail(error));
  }
}

void ChunkSender::forget(std::uint64_t transfer, const Destination& to) {
  const wire::ChunkHeader header(transfer, 0, 0);
  const auto call = requests_.open_call(to, kChunkLimit, [](const Result<std::string>&) {});
  // What cannot be told is forgotten after a while (ChunkStore::kIdle).
  if (!requests_.post_call(call, to, 0, kChunkLimit, bytes_of(&header, sizeof header), {},
                           kFlagChunk))
    requests_.drop(call);
}

}  // namespace meshbus
