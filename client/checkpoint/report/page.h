// Renders the report as a self-contained HTML page: no script, no network.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_PAGE_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_PAGE_H_

#include <string>

#include "client/checkpoint/model.h"
#include "client/checkpoint/report/report.h"

namespace quantd::checkpoint {

std::string PageOf(const Report& report);
// Renders the report for programs. Numbers that are not finite become null.
Json JsonOf(const Report& report);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_PAGE_H_
