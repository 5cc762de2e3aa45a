# softImpute of Hastie and Mazumder on triplets of binary files, timed within R.
#   Rscript softimpute.R FOLDER N_ROWS N_COLUMNS N_ENTRIES RANK WEIGHT ITERATIONS SPARSE
suppressMessages(library(softImpute))
given <- commandArgs(trailingOnly = TRUE)
folder <- given[1]
sizes <- as.integer(given[c(2, 3, 4, 5, 7)])
weight <- as.numeric(given[6])
entries <- function(name, what, size) {
  readBin(file.path(folder, name), what, sizes[3], size = size)
}
rows <- entries("rows", "integer", 4) + 1L
columns <- entries("columns", "integer", 4) + 1L
values <- entries("values", "double", 8)
if (given[8] == "sparse") {
  table <- Incomplete(rows, columns, values)
} else {
  table <- matrix(NA_real_, sizes[1], sizes[2])
  table[cbind(rows, columns)] <- values
}
# thresh = 0: the number of iterations alone decides when it stops.
fit <- function(iterations) {
  suppressWarnings(softImpute(table, rank.max = sizes[4], lambda = weight, type = "als",
                              thresh = 0, maxit = iterations))
}
invisible(fit(1L))
seconds <- system.time(answer <- fit(sizes[5]))[["elapsed"]]
u <- as.matrix(answer$u) %*% diag(answer$d, length(answer$d))
writeBin(as.double(u), file.path(folder, "left"))
writeBin(as.double(answer$v), file.path(folder, "right"))
status <- tryCatch(readLines("/proc/self/status"), error = function(e) "VmHWM: NA kB")
peak <- gsub("[^0-9]", "", grep("VmHWM", status, value = TRUE))
writeLines(c(as.character(seconds), as.character(length(answer$d)), peak),
           file.path(folder, "report"))
