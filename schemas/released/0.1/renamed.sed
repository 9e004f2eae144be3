# New names since release 0.1, which readers and writers of the wire do not see.
s/\<Certificate\>/ExitReport/g
s/\<certificates\>/exit_reports/g
