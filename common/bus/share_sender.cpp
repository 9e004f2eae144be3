#include "common/bus/share_sender.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <sodium.h>

#include "common/bus/share_inbox.h"
#include "common/wire/frame.h"

namespace meshbus {

ShareSender::~ShareSender() {
  for (const auto& [number, transfer] : transfers_) reactor_.cancel(transfer.retry);
}

bool ShareSender::may_go_in_chunks(ErrorCode code) noexcept {
  return code == ErrorCode::no_such_port || code == ErrorCode::io_error ||
         code == ErrorCode::unauthorised;
}

void ShareSender::send(std::uint64_t transfer, const Destination& to, SharedBody body,
                       IsWanted is_wanted, Done done) {
  const auto number = next_++;
  transfers_.emplace(number, Transfer{.id = transfer,
                                      .to = to,
                                      .body = std::move(body),
                                      .is_wanted = std::move(is_wanted),
                                      .done = std::move(done)});
  go_on(number);
}

void ShareSender::go_on(std::uint64_t number) {
  const Transfer& transfer = transfers_.at(number);
  const wire::ShareHeader header(transfer.id, transfer.body.bytes().size(), transfer.ticket.first,
                                 transfer.ticket.second);
  const auto call = requests_.open_call(
      transfer.to, kLimit,
      [this, number, alive = std::weak_ptr<void>(alive_)](const Result<std::string>& answer) {
        if (!alive.expired()) on_answer(number, answer);
      });
  if (requests_.post_call(call, transfer.to, 0, kLimit, bytes_of(&header, sizeof header), {},
                          kFlagShare))
    return;
  requests_.drop(call);
  transfers_.at(number).refusal = Requests::queue_is_full();
  retry_after(number, kRetry);
}

void ShareSender::retry_after(std::uint64_t number, std::chrono::milliseconds pause) {
  Transfer& transfer = transfers_.at(number);
  transfer.give_up = std::min(transfer.give_up, reactor_.now() + kLimit);
  transfer.retry = reactor_.after(pause, [this, number] {
    Transfer& again = transfers_.at(number);
    again.retry = 0;
    if (!again.is_wanted()) return drop(number);
    if (reactor_.now() >= again.give_up) return finish(number, fail(Error(again.refusal)));
    go_on(number);
  });
}

void ShareSender::on_answer(std::uint64_t number, const Result<std::string>& answer) {
  const auto found = transfers_.find(number);
  if (found == transfers_.end()) return;
  Transfer& transfer = found->second;
  if (!transfer.is_wanted()) return drop(number);
  const bool is_there = transfer.ticket != ShareTicket();
  if (!answer) {
    const bool may_wait = answer.error().code() == ErrorCode::queue_full && !is_there &&
                          reactor_.now() < transfer.give_up;
    if (!may_wait) return finish(number, fail(answer.error()));
    transfer.refusal = answer.error();
    return retry_after(number, kRoomRetry);
  }
  if (is_there)
    return finish(number, wire::ChunkHeader(transfer.id, transfer.body.bytes().size(), 0));
  ShareTicket ticket;
  randombytes_buf(&ticket, sizeof ticket);
  if (auto put = ShareInbox::put(*answer, ticket, transfer.body.descriptor()); !put)
    return finish(number, fail(put.error()));
  transfer.ticket = ticket;
  transfer.give_up = Reactor::Time::max();
  go_on(number);
}

void ShareSender::finish(std::uint64_t number, const Result<wire::ChunkHeader>& result) {
  const auto transfer = transfers_.extract(number);
  reactor_.cancel(transfer.mapped().retry);
  transfer.mapped().done(result);
}

void ShareSender::drop(std::uint64_t number) {
  const auto transfer = transfers_.extract(number);
  const Destination& to = transfer.mapped().to;
  const wire::ChunkHeader header(transfer.mapped().id, 0, 0);
  const auto call = requests_.open_call(to, kLimit, [](const Result<std::string>&) {});
  // What cannot be said is forgotten after a while (ChunkStore::kIdle).
  if (!requests_.post_call(call, to, 0, kLimit, bytes_of(&header, sizeof header), {}, kFlagChunk))
    requests_.drop(call);
}

void ShareSender::fail_all(const Error& error) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, transfer] : transfers_) numbers.push_back(number);
  for (const auto number : numbers) {
    if (transfers_.contains(number)) finish(number, fail(error));
  }
}

}  // namespace meshbus
