#include "common/bus/body_intake.h"

#include <cstring>
#include <utility>

#include "common/base/sealed_memory.h"
#include "common/wire/frame.h"

namespace meshbus {
namespace {

ChunkStore::Sender sender_of(const wire::Envelope& from) {
  return {from.source_proc(), from.source_host(), from.source_incarnation()};
}

}  // namespace

void BodyIntake::on_chunk(const wire::Envelope& from, const wire::CallHeader& header, Bytes body) {
  wire::ChunkHeader chunk;
  if (body.size() < sizeof chunk)
    return responder_.fail_call(from, header,
                                Error(ErrorCode::malformed_message, "a chunk without its header"));
  std::memcpy(&chunk, body.data(), sizeof chunk);
  const auto added = store_.add(sender_of(from), chunk, body.substr(sizeof chunk), reactor_.now());
  watch();
  if (added) return responder_.answer_call(from, header, {});
  responder_.fail_call(from, header, added.error());
}

void BodyIntake::on_share(const wire::Envelope& from, const wire::CallHeader& header, Bytes body) {
  wire::ShareHeader share;
  if (body.size() != sizeof share)
    return responder_.fail_call(from, header,
                                Error(ErrorCode::malformed_message, "a share without its header"));
  std::memcpy(&share, body.data(), sizeof share);
  if (!postbox_.is_of_host(from, 0))
    return responder_.fail_call(
        from, header, Error(ErrorCode::io_error, "shared memory is for procs of one host"));
  if (share.ticket_first() != 0 || share.ticket_second() != 0) {
    const auto placed = place(sender_of(from), share);
    if (!placed) return responder_.fail_call(from, header, placed.error());
    return responder_.answer_call(from, header, {});
  }
  const auto address = inbox_.address();
  if (!address) return responder_.fail_call(from, header, address.error());
  const auto has_room =
      store_.reserve(sender_of(from), share.transfer(), share.total(), reactor_.now());
  watch();
  if (!has_room) return responder_.fail_call(from, header, has_room.error());
  responder_.answer_call(from, header, *address);
}

Result<void> BodyIntake::place(const ChunkStore::Sender& from, const wire::ShareHeader& header) {
  const auto descriptor = inbox_.take({header.ticket_first(), header.ticket_second()});
  if (!descriptor) return fail(descriptor.error());
  if (auto waits = store_.check_reserved(from, header.transfer(), header.total()); !waits)
    return waits;
  auto memory = SealedMemory::map(descriptor->get(), header.total());
  if (!memory) return fail(memory.error());
  store_.put(from, header.transfer(), std::move(*memory), reactor_.now());
  ++mapped_;
  return {};
}

Result<ChunkStore::Taken> BodyIntake::take(const wire::Envelope& from, Bytes body) {
  wire::ChunkHeader chunk;
  if (body.size() < sizeof chunk)
    return fail(ErrorCode::malformed_message, "a message without the header of its body");
  std::memcpy(&chunk, body.data(), sizeof chunk);
  return store_.take(sender_of(from), chunk);
}

void BodyIntake::watch() {
  if (timer_ != 0 || store_.count() == 0) return;
  timer_ = reactor_.after(ChunkStore::kIdle / 2, [this] {
    timer_ = 0;
    store_.expire(reactor_.now());
    watch();
  });
}

}  // namespace meshbus
