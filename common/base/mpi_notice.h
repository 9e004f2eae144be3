#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshbus::mpi {

/// What a helper tells the launcher: one line on its stdout. A plain value.
struct Notice {
  enum class Kind : std::uint8_t {
    abort,        ///< The rank called MPI_Abort with `code`.
    refused,      ///< The rank called what `text` names, which cannot be had: the job would hang.
    unfinalized,  ///< The rank has ended between MPI_Init and MPI_Finalize.
    begun,        ///< The rank has called MPI_Init, as the first one of its host.
    never_begun,  ///< The rank has ended without having called MPI_Init.
  };
  Kind kind = Kind::abort;
  std::uint64_t rank = 0;
  int code = 0;
  std::uint64_t attempt = 0;  ///< How often the rank was started before.
  std::uint64_t time_us = 0;  ///< When the helper saw it, by the clock of its host (Unix time,
                              ///< microseconds).
  std::string text = {};      ///< Without newlines.

  /// With the newline.
  std::string to_line() const;
  /// Nothing when the line, without its newline, is no notice.
  static std::optional<Notice> parse(std::string_view line);
  friend bool operator==(const Notice&, const Notice&) = default;
};

}  // namespace meshbus::mpi
