#include "common/bus/body_sender.h"

#include <utility>

#include "meshbus/large_text.h"

namespace meshbus {

bool BodySender::is_shared(const SharedBody& body, std::uint64_t host) const noexcept {
  return body.descriptor() >= 0 && is_here(host);
}

SharedBody BodySender::hold(Bytes body, std::uint64_t host) const {
  return is_here(host) ? SharedBody::copy(body) : SharedBody::of(copy_large(body));
}

void BodySender::send(std::uint64_t transfer, const Destination& to, SharedBody body,
                      IsWanted is_wanted, Done done) {
  if (!is_shared(body, to.host))
    return chunks_.send(transfer, to, std::move(body), std::move(is_wanted), std::move(done));
  shares_.send(transfer, to, body, is_wanted,
               [this, transfer, to, body, is_wanted, done = std::move(done)](const auto& header) {
                 if (header) return done(header);
                 if (!ShareSender::may_go_in_chunks(header.error().code())) {
                   chunks_.forget(transfer, to);
                   return done(header);
                 }
                 chunks_.send(transfer, to, body, is_wanted, done);
               });
}

void BodySender::fail_all(const Error& error) {
  shares_.fail_all(error);
  chunks_.fail_all(error);
}

}  // namespace meshbus
