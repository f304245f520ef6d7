"""The pipeline of EC2 Image Builder that makes a GPU node image."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_aws as aws
from pulumi_aws import imagebuilder as builder

from components.component import Component
from components.eks.iam import service_role
from components.eks.in_cluster import InCluster
from fleet.providers.eks.recipe.recipe import recipe

_BUILD_POLICIES = ("EC2InstanceProfileForImageBuilder", "AmazonSSMManagedInstanceCore")
"""What the machine that builds and tests needs (EC2 Image Builder user guide, prerequisites)."""
IN_USE = {"gpu-ci/in-use": "true"}
"""Tag of the AMI that pools run. The lifecycle policy keeps it, however old it is."""


class GpuAmi(Component[InCluster, str]):
    """Recipe, machine, test, distribution and retirement of a node image. The pipeline builds it, `pulumi up` does not.

    The image is the entry `ami` of the settings of the cluster `here`. Its machines are in a private subnet.
    """

    pipeline_arn: pulumi.Output[str]
    """ARN of the pipeline, which `aws imagebuilder start-image-pipeline-execution` runs."""
    reader_arns: list[pulumi.Output[str]]
    """ARN of the build machine's role, if it pulls an image from ECR; else empty."""

    def declare(self, name: str, here: InCluster, ami: str) -> None:
        settings = self._settings = here.settings.amis[ami]
        # By it the lifecycle policy finds all images.
        self._here, self._physical_name = here, f"{here.physical_name}-{ami}"
        self.pipeline_arn = builder.ImagePipeline(
            f"{name}-pipeline",
            image_recipe_arn=self._recipe(name).arn,
            infrastructure_configuration_arn=self._machine(name).arn,
            distribution_configuration_arn=self._distribution(name).arn,
            # A failed test distributes nothing. A test of 20 large images stays below the least limit that the API takes.
            image_tests_configuration={"image_tests_enabled": True, "timeout_minutes": 60},
            schedule={"schedule_expression": settings.schedule, "pipeline_execution_start_condition": "EXPRESSION_MATCH_ONLY"}
            if settings.schedule
            else None,
            opts=self._child,
        ).arn
        self._retirement(name)
        if settings.built is not None:
            ((key, value),) = IN_USE.items()
            aws.ec2.Tag(f"{name}-in-use", resource_id=settings.built.id, key=key, value=value, opts=self._child)

    def _recipe(self, name: str) -> builder.ImageRecipe:
        parent, document, version = recipe(self._physical_name, self._settings, self._here.settings.kubernetes_version)
        component = builder.Component(f"{name}-component", platform="Linux", version="1.0.0", data=document, opts=self._child)
        gib = self._settings.disk // 1024
        disk = {"volume_size": gib, "volume_type": "gp3", "encrypted": "true", "delete_on_termination": "true"}
        disks, parts = [{"device_name": "/dev/xvda", "ebs": disk}], [{"component_arn": component.arn}]
        made_of: dict[str, Any] = {"parent_image": parent, "components": parts, "block_device_mappings": disks}
        return builder.ImageRecipe(f"{name}-recipe", name=self._physical_name, version=version, **made_of, opts=self._child)

    def _machine(self, name: str) -> builder.InfrastructureConfiguration:
        """The machine that builds and the one that tests: no way in, IMDSv2, and deleted also after a failure."""
        from_ecr = any(".dkr.ecr." in image for image in self._settings.pre_pull)
        pulls = ("AmazonEC2ContainerRegistryPullOnly",) if from_ecr else ()
        role, _ = service_role(f"{name}-build", "ec2.amazonaws.com", (*_BUILD_POLICIES, *pulls), parent=self)
        self.reader_arns = [role.arn] if from_ecr else []
        profile = aws.iam.InstanceProfile(f"{name}-profile", role=role.name, opts=self._child)
        about, cluster = "Machines that build a node image: https out, nothing in", self._here.cluster
        out: list[Any] = [{"protocol": "tcp", "from_port": 443, "to_port": 443, "cidr_blocks": ["0.0.0.0/0"]}]
        group = aws.ec2.SecurityGroup(f"{name}-group", vpc_id=cluster.vpc_id, description=about, egress=out, opts=self._child)
        place = {"subnet_id": next(iter(cluster.subnets.values())), "security_group_ids": [group.id]}
        kind: dict[str, Any] = {"instance_profile_name": profile.name, "instance_types": [self._settings.build_type]}
        kind["instance_metadata_options"] = {"http_tokens": "required", "http_put_response_hop_limit": 1}
        always = {"terminate_instance_on_failure": True, "resource_tags": self._here.context.tags}
        return builder.InfrastructureConfiguration(f"{name}-machine", **place, **kind, **always, opts=self._child)

    def _distribution(self, name: str) -> builder.DistributionConfiguration:
        image = {"name": f"{self._physical_name}-{{{{ imagebuilder:buildDate }}}}", "ami_tags": self._here.context.tags}
        regions = (self._here.settings.region, *sorted(self._settings.regions))
        copies = [{"region": region, "ami_distribution_configuration": image} for region in regions]
        return builder.DistributionConfiguration(f"{name}-distribution", distributions=copies, opts=self._child)

    def _retirement(self, name: str) -> None:
        policies = ("service-role/EC2ImageBuilderLifecycleExecutionPolicy",)
        role, rights = service_role(f"{name}-retirement", "imagebuilder.amazonaws.com", policies, parent=self)
        # EC2 still starts a deprecated image by its id, but no longer lists it.
        age, count = {"type": "AGE", "value": 90, "unit": "DAYS"}, {"type": "COUNT", "value": self._settings.keep}
        details: list[Any] = []
        for kind, when in (("DEPRECATE", age), ("DELETE", count)):
            action = {"type": kind, "include_resources": {"amis": True, "snapshots": kind == "DELETE"}}
            details.append({"action": action, "filter": when, "exclusion_rules": {"amis": {"tag_map": IN_USE}}})
        recipes: Any = {"recipes": [{"name": self._physical_name, "semantic_version": "x.x.x"}]}
        of: dict[str, Any] = {"execution_role": role.arn, "resource_type": "AMI_IMAGE", "resource_selection": recipes}
        builder.LifecyclePolicy(f"{name}-lifecycle", **of, policy_details=details, opts=self._below(*rights))
