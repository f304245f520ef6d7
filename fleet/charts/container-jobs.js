// see the branch hooks
