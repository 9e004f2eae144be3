#pragma once

#include "client/src/site/report_json.h"

namespace meshbus::cli {

using reports::dump;
using reports::rank_json;
using reports::time_text;

}  // namespace meshbus::cli
