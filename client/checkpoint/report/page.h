// Renders the report as a self-contained HTML page without scripts or network
// access.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_PAGE_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_PAGE_H_

#include <string>

#include "client/checkpoint/model.h"
#include "client/checkpoint/report/report.h"

namespace quantd::checkpoint {

std::string PageOf(const Report& report);
// Renders the report as JSON. Numbers that are not finite become null.
Json JsonOf(const Report& report);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_PAGE_H_
